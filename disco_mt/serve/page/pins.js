/* Pinned words: {sentence, at: first token or null for anywhere, text, of: the source sentence}. Pure functions. */

/* After the text was edited: a pin follows its sentence; where that was changed, it may stand anywhere in it. */
export function follow(pins, sources) {
  return pins.flatMap((pin) => {
    if (pin.of === null || sources[pin.sentence] === pin.of) {
      return pin.sentence < sources.length ? [{ ...pin, of: sources[pin.sentence] }] : [];
    }
    const moved = sources.indexOf(pin.of);
    if (moved >= 0) return [{ ...pin, sentence: moved }];
    return pin.sentence < sources.length ? [{ ...pin, at: null, of: sources[pin.sentence] }] : [];
  });
}

/* The pin that a word of a pass belongs to: the last one placed before it with only pinned tokens between,
   or one without a place that reads as it does. */
export function pinOf(pins, sentence, pass, word) {
  const here = pins.filter((pin) => pin.sentence === sentence);
  const pinned = (from, to) => pass.words.slice(from, to).every((_, n) => pass.pinned?.[from + n]);
  const placed = here.filter((pin) => pin.at !== null && pin.at < word.end && pinned(pin.at, word.end));
  if (placed.length) return placed.reduce((last, pin) => (pin.at > last.at ? pin : last));
  return (word.pinned && here.find((pin) => pin.at === null && pin.text.includes(word.text))) || null;
}
