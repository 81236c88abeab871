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

MAX_REFERENCES = 48  # sentences with more translations are left out
MIN_WORDS, MAX_WORDS = 3, 14  # of every German sentence
_DRAWS_PER_SENTENCE = 20  # give up after so many draws


@dataclass(frozen=True)
class Phrase:
    """An English sentence and all its German translations, distinct; the first is the primary one."""

    english: str
    german: tuple[str, ...]


@dataclass(frozen=True)
class Phrasebook:
    """`train` has each English sentence several times; its usual translations occur more often."""

    train: list[tuple[str, str]]
    valid: list[Phrase]
    test: list[Phrase]

    def write(self, directory: Path) -> None:
        """Write {train,valid,test}.{en,de} and {valid,test}.references.tsv to an existing directory.

        valid.de and test.de have the primary references; the .tsv files have all, the primary one first.
        """
        _write(directory / "train.en", [english for english, _ in self.train])
        _write(directory / "train.de", [german for _, german in self.train])
        for name, phrases in (("valid", self.valid), ("test", self.test)):
            _write(directory / f"{name}.en", [phrase.english for phrase in phrases])
            _write(directory / f"{name}.de", [phrase.german[0] for phrase in phrases])
            _write(directory / f"{name}.references.tsv", ["\t".join(phrase.german) for phrase in phrases])


def phrasebook(
    seed: int = 1, train: int = 12_000, valid: int = 300, test: int = 500, translations: int = 4
) -> Phrasebook:
    """The corpus of a seed.

    train, valid, test: numbers of English sentences. Each training sentence occurs `translations` times, with
    a randomly drawn translation, the usual ones more often. All words of valid and test, in both languages,
    occur in train.
    """
    _check({"train": train, "valid": valid, "test": test, "translations": translations})
    draw = random.Random(seed)
    held_out = valid + test
    phrases = _draw_phrases(draw, train + held_out + held_out // 4 + 50)
    draw.shuffle(phrases)  # rare sentences are drawn late: spread them over the splits
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
    """Write the corpus as text files to a new directory; see `Phrasebook.write`."""
    book = phrasebook(seed, train, valid, test, translations)
    with atomic_directory(directory) as out:
        book.write(out)


def _draw_phrases(draw: random.Random, count: int) -> list[Phrase]:
    """`count` distinct English sentences with their translations, the usual ones first."""
    seen: set[str] = set()
    phrases: list[Phrase] = []
    for _ in range(_DRAWS_PER_SENTENCE * count):
        if len(phrases) == count:
            return phrases
        sentence = draw_sentence(draw)
        text = english.say(sentence)
        if text in seen:
            continue
        seen.add(text)
        translations = german.say(sentence)
        if len(translations) <= MAX_REFERENCES and all(map(_has_usual_length, translations)):
            phrases.append(Phrase(text, translations))
    raise UserError(
        f"the phrasebook grammar found only {len(phrases)} of {count} sentences; "
        "ask for fewer training, valid or test sentences"
    )


def _draw_usual(draw: random.Random, translations: Sequence[str]) -> str:
    """One of them by Zipf's law: the second is half as likely as the first, and so on."""
    return draw.choices(translations, [1 / rank for rank in range(1, len(translations) + 1)])[0]


def _drawn_first(draw: random.Random, translations: tuple[str, ...]) -> tuple[str, ...]:
    """A random one first: the primary reference."""
    primary = _draw_usual(draw, translations)
    return (primary, *(text for text in translations if text != primary))


def _has_usual_length(text: str) -> bool:
    return MIN_WORDS <= len(text.split()) <= MAX_WORDS


def _words(texts: Iterable[str]) -> set[str]:
    """Words split at white space, with capitals and commas: stricter than any tokenizer."""
    return {word for text in texts for word in text.split()}


def _check(sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise UserError(f"{name} must be at least 1, got {size}")


def _write(path: Path, lines: Sequence[str]) -> None:
    write_text(path, "".join(f"{line}\n" for line in lines))
