"""The built-in corpus: sentences drawn from the grammar; no English sentence is in two splits."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory, write_text
from disco_mt.data.phrasebook import english, german
from disco_mt.data.phrasebook.sentences import draw_sentence

MAX_REFERENCES = 48  # sentences that can be said in more ways are left out
MIN_WORDS, MAX_WORDS = 3, 14  # of every German sentence
_DRAWS_A_SENTENCE = 20  # give up when so many draws bring no new sentence


@dataclass(frozen=True)
class Phrase:
    """An English sentence and all its German translations, distinct; the first is the primary one."""

    english: str
    german: tuple[str, ...]


@dataclass(frozen=True)
class Phrasebook:
    """`train` has raw pairs: the same English comes with several German sentences, usual ones more often."""

    train: list[tuple[str, str]]
    valid: list[Phrase]
    test: list[Phrase]


def phrasebook(
    seed: int = 1, train: int = 12_000, valid: int = 300, test: int = 500, translations: int = 4
) -> Phrasebook:
    """The corpus of this seed.

    `train`, `valid` and `test` count English sentences; each of `train` comes `translations` times, with a
    German sentence that is drawn anew each time, as in a corpus that many people have written: all ways to
    say it occur, the usual ones more often. No sentence of `valid` and `test`, in either language, has a
    word that `train` has not.
    """
    _check({"train": train, "valid": valid, "test": test, "translations": translations})
    draw = random.Random(seed)
    held_out = valid + test
    phrases = _draw_phrases(draw, train + held_out + held_out // 4 + 50)
    draw.shuffle(phrases)  # later draws are the rarer sentences: spread them over the splits
    pairs = [(p.english, _draw_usual(draw, p.german)) for p in phrases[:train] for _ in range(translations)]
    draw.shuffle(pairs)
    known = _words(side for pair in pairs for side in pair)
    rest = [phrase for phrase in phrases[train:] if _words((phrase.english, *phrase.german)) <= known]
    if len(rest) < held_out:
        raise UserError(
            f"a phrasebook of {train} training sentences has the words of only {len(rest)} others, "
            f"but valid and test need {held_out}; raise train or lower valid and test"
        )
    held = [Phrase(phrase.english, _drawn_first(draw, phrase.german)) for phrase in rest[:held_out]]
    return Phrasebook(pairs, held[:valid], held[valid:])


def write_phrasebook(
    directory: Path,
    seed: int = 1,
    train: int = 12_000,
    valid: int = 300,
    test: int = 500,
    translations: int = 4,
) -> None:
    """Write the corpus as text files: {train,valid,test}.{en,de} and {valid,test}.references.tsv.

    The .de side of valid and test has the primary references; the .tsv files have all of them, primary first.
    """
    book = phrasebook(seed, train, valid, test, translations)
    with atomic_directory(directory) as out:
        _write(out / "train.en", [pair[0] for pair in book.train])
        _write(out / "train.de", [pair[1] for pair in book.train])
        for name, phrases in (("valid", book.valid), ("test", book.test)):
            _write(out / f"{name}.en", [phrase.english for phrase in phrases])
            _write(out / f"{name}.de", [phrase.german[0] for phrase in phrases])
            _write(out / f"{name}.references.tsv", ["\t".join(phrase.german) for phrase in phrases])


def _draw_phrases(draw: random.Random, count: int) -> list[Phrase]:
    """`count` phrases of distinct English, each with its translations, the usual ones first."""
    seen: set[str] = set()
    phrases: list[Phrase] = []
    for _ in range(_DRAWS_A_SENTENCE * count):
        if len(phrases) == count:
            return phrases
        sentence = draw_sentence(draw)
        text = english.say(sentence)
        if text in seen:
            continue
        seen.add(text)
        translations = german.say(sentence)
        if len(translations) <= MAX_REFERENCES and all(_handy(text) for text in translations):
            phrases.append(Phrase(text, translations))
    raise UserError(
        f"the phrasebook grammar found only {len(phrases)} of {count} sentences; "
        "ask for fewer training, valid or test sentences"
    )


def _draw_usual(draw: random.Random, translations: Sequence[str]) -> str:
    """One of them by Zipf's law: the second half as often as the first, the third a third as often ..."""
    return draw.choices(translations, [1 / rank for rank in range(1, len(translations) + 1)])[0]


def _drawn_first(draw: random.Random, translations: tuple[str, ...]) -> tuple[str, ...]:
    """A drawn one in front: the primary reference."""
    primary = _draw_usual(draw, translations)
    return (primary, *(text for text in translations if text != primary))


def _handy(text: str) -> bool:
    return MIN_WORDS <= len(text.split()) <= MAX_WORDS


def _words(texts: Iterable[str]) -> set[str]:
    """Words as white space parts them, with capitals and commas: stricter than any tokenizer."""
    return {word for text in texts for word in text.split()}


def _check(sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise UserError(f"{name} must be at least 1, got {size}")


def _write(path: Path, lines: Sequence[str]) -> None:
    write_text(path, "".join(f"{line}\n" for line in lines))
