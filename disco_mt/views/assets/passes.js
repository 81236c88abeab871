/* Questions about the passes of one length candidate (disco_mt/views/view.py: to_data). No element in here. */
import { percent } from "./dom.js";

const LETTER = /[\p{L}\p{M}\p{N}\-‐‑'’_\u00ad\u200c\u200d]/u;      // what makes a word longer (disco_mt/pins/parse.py)
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u;   // a token is a word
const CLOSING = /^[.,;:!?…)\]}»”’。、，؟،؛]+$/u;                    // stands close to what is before it

export const isPinned = (pass, n) => Boolean(pass.pinned && pass.pinned[n]);
export const isChanged = (passes, t, n) => Boolean(passes[t].changed?.[n]);
const sameLength = (passes, t) => passes[t - 1].words.length === passes[t].words.length;

/* How a token alone is shown: some are only a space, or a part of a character. */
export const shown = (pass, n) => pass.words[n] || (pass.spaces[n] ? "␣" : "·");

/* Is token n the rest of the word that began with `text`? */
function belongs(text, pass, n) {
  if (n === 0 || pass.spaces[n]) return false;
  const before = text.at(-1) ?? "";
  const after = pass.words[n][0] ?? "";
  if (!before || !after) return true;
  return LETTER.test(before) && LETTER.test(after) && !UNSPACED.test(before + after);
}

/* The words of a pass: tokens [start, end), a word being as sure as its least sure token. */
export function wordsOf(pass) {
  const words = [];
  pass.words.forEach((text, n) => {
    const word = words.at(-1);
    if (word && belongs(word.text, pass, n)) {
      word.end = n + 1;
      word.text += text;
      word.probability = Math.min(word.probability, pass.probabilities[n]);
      word.pinned ||= isPinned(pass, n);
    } else {
      const space = n > 0 && pass.spaces[n] && !CLOSING.test(text);
      words.push({ start: n, end: n + 1, text, space, probability: pass.probabilities[n], pinned: isPinned(pass, n) });
    }
  });
  return words;
}

/* The pass that predicted token n as it stands in pass t (mask-predict keeps words from earlier passes). */
export function origin(passes, t, n) {
  while (t > 0 && !passes[t].predicted[n] && sameLength(passes, t)) t -= 1;   // else words have moved
  return t;
}

/* What tokens [start, end) of pass t read: the pass they were made in, and positions in the pass before it. */
export function context(passes, t, start, end) {
  const made = Math.max(...range(start, end).map((n) => origin(passes, t, n)));
  const moved = made > 0 && !sameLength(passes, made);   // then a position means another word there
  const read = passes[Math.max(0, made - 1)].words.length;
  const other = (m) => m < read && (moved || m < start || m >= end);
  const seen = range(start, end).filter((n) => origin(passes, t, n) === made)
    .flatMap((n) => passes[made].observed?.[n] ?? []).filter(other);
  return { made, seen: [...new Set(seen)].sort((a, b) => a - b), own: moved ? 0 : end - start };
}

/* The same in words, for the screen and for screen readers. */
export function describe(passes, t, start, end) {
  const { made, seen, own } = context(passes, t, start, end);
  const tokens = range(start, end);
  const replaced = t > 0 && sameLength(passes, t) && tokens.some((n) => isChanged(passes, t, n));
  const was = replaced ? join(passes[t - 1], tokens) : "";
  const sure = percent(Math.min(...tokens.map((n) => passes[t].probabilities[n])));
  if (tokens.every((n) => isPinned(passes[t], n))) return "pinned by you: seen by all others from the first pass on";
  if (!passes[made].observed) return sure;               // its passes were not watched
  const kept = made < t ? `, kept from pass ${made + 1}` : "";
  return `${sure}${was ? `, was “${was}”` : ""}${kept} · ${saw(passes, made, seen, own)}`;
}

function saw(passes, made, seen, own) {
  if (!seen.length) return "saw no other word, only the source and the length";
  const read = passes[Math.max(0, made - 1)];           // pinned words are seen in the first pass already
  return `saw ${seen.length} of ${read.words.length - own} others: ${join(read, seen)}`;
}

function join(pass, tokens) {
  return wordsOf(pass).map(({ start, end }) => tokens.filter((n) => n >= start && n < end).map((n) => shown(pass, n)).join(""))
    .filter(Boolean).join(" ");
}

function range(start, end) {
  return Array.from({ length: end - start }, (_, n) => start + n);
}
