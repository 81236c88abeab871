"""Pins: words or phrases that a translation must contain, and how they become tokens.

A pinned word stays a word: it begins where a word begins, and what follows it must not continue it.
`contains` says when a text has kept one.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from disco_mt.core.errors import UserError
from disco_mt.core.settings import at_least
from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.text.languages import is_spaceless
from disco_mt.text.lines import well_formed
from disco_mt.text.tokenizer import Tokenizer

JOINERS = "-‐‑'’_\u00ad\u200c\u200d"  # beside a word, these make it part of a longer one
CONTINUES = "@@"  # how subword-nmt, the paper's BPE, marks a token that does not end its word

_AS_WRITTEN = ("raw", "sentencepiece")  # spaces stand where the text has them
_PLACE = re.compile(r"(.+)@(?:(-?\d{1,9}):)?(-?\d{0,9})", re.DOTALL)


@dataclass(frozen=True)
class Pin:
    """A word or phrase that the translation must contain."""

    text: str
    at: int | None = None  # position (from 0) of its first token in the target; None: the model chooses
    sentence: int = 0  # which sentence, where a text is split

    def __post_init__(self) -> None:
        if not _spaced(self.text):
            raise UserError("a pin must have a text: a word or a phrase")
        if self.at is not None:
            at_least(f"the place of pin {self.text[:40]!r}", self.at, 0)
        at_least(f"the sentence of pin {self.text[:40]!r}", self.sentence, 0)

    @staticmethod
    def parse(text: str) -> Pin:
        """As it is typed: "Haus", "das Haus@2" (at token 2), "Haus@1:2" (of sentence 1), "Haus@1:".

        A text that ends like a place takes one more @: "a@2@" is the text "a@2", anywhere.
        """
        found = _PLACE.fullmatch(text)
        if found is None:
            return Pin(text)
        phrase, sentence, at = found.groups()
        return Pin(phrase, int(at) if at else None, int(sentence or 0))

    def ids(self, target: Tokenizer) -> list[int] | str:
        """Its tokens in the middle of a sentence (or at its start, if it is pinned there).

        A string says why the vocabulary cannot write it.
        """
        text = _spaced(self.text)
        ids = target.encode(text)
        if any(index < NUM_SPECIAL for index in ids):
            return f"the model has no token for a part of the pin {text[:80]!r}"
        if target.decode(ids) != text:
            found = target.decode(ids)
            return f"the tokenizer cannot write the pin {text[:80]!r}; it would become {found[:80]!r}"
        return ids if self.at == 0 or not _attached(text, target) else _without_space(text, target)

    @property
    def ends_a_word(self) -> bool:
        """Is its last character part of a word, so that another could make the word longer?"""
        return _in_word(_spaced(self.text)[-1])


def contains(text: str, phrase: str, language: str = "") -> bool:
    """Is the phrase in the text, with no letter, digit or joiner that would make its words longer?

    In a language without spaces the letters are all there is to see.
    """
    return _spaced(phrase) in text if is_spaceless(language) else find(text, phrase) >= 0


def find(text: str, phrase: str) -> int:
    """Where the phrase first stands in the text as whole words; -1: nowhere."""
    phrase = _spaced(phrase)
    places = (found.start() for found in re.finditer(f"(?={re.escape(phrase)})", text))
    return next((start for start in places if _stands_alone(text, start, start + len(phrase))), -1)


def words_of(text: str) -> list[str]:
    """The words of a text with spaces, without the punctuation around them."""
    trimmed = (_trimmed(word) for word in text.split())
    return [word for word in trimmed if any(map(_is_letter, word))]


def may_follow(target: Tokenizer) -> list[bool]:
    """For every id: may it stand right after a pinned word? A space or punctuation begins it."""
    ids = range(target.vocabulary_size)
    if target.processing == "pretokenized" or not has_spaces(target):
        return [True for _ in ids]
    return [
        index >= NUM_SPECIAL and _begins_anew(piece)
        for index, piece in zip(ids, target.pieces(ids), strict=True)
    ]


def may_precede(target: Tokenizer) -> list[bool]:
    """For every id: may it stand right before a pin? In pretokenized text a token may run into the next."""
    ids = range(target.vocabulary_size)
    if target.processing != "pretokenized":
        return [True for _ in ids]  # the pin brings its own space
    return [not token.endswith(CONTINUES) for token in target.tokens(ids)]


def has_spaces(target: Tokenizer) -> bool:
    """Are the words that the vocabulary is made of separated by spaces?"""
    return target.processing not in _AS_WRITTEN or not is_spaceless(target.language)


def _trimmed(word: str) -> str:
    inside = [n for n, character in enumerate(word) if _is_letter(character)]
    return word[inside[0] : inside[-1] + 1] if inside else ""


def _spaced(text: str) -> str:
    """What the tokenizer makes of white space; a pin is written on one line."""
    return re.sub(r"[ \t\r\n]+", " ", well_formed(text)).strip(" ")


def _attached(text: str, target: Tokenizer) -> bool:
    """Is it written without a space before it? A full stop is; in some languages everything is."""
    if target.processing not in _AS_WRITTEN:
        return False  # each word has its space; the text is put together afterwards
    closing = unicodedata.category(text[0]) in ("Po", "Pe", "Pf") and text[0] not in JOINERS + "¿¡"
    return closing or not has_spaces(target)


def _without_space(text: str, target: Tokenizer) -> list[int]:
    """The tokens of `text` right behind something from which the tokenizer cuts it."""
    before = "," if _is_letter(text[0]) else "x"
    cut, ids = target.encode(before), target.encode(before + text)
    if ids[: len(cut)] != cut:  # SentencePiece may have one piece for both
        return target.encode(text)
    return ids[len(cut) :]


def _begins_anew(piece: str) -> bool:
    first = piece[:1] or "\ufffd"  # which is no character, but a part of one
    apart = unicodedata.category(first)[0] in "PS" and first != "\ufffd"
    return first.isspace() or (apart and not _in_word(first))


def _in_word(character: str) -> bool:
    return _is_letter(character) or character in JOINERS


def _is_letter(character: str) -> bool:
    """As the tokenizer has it: letters, their marks, digits."""
    return unicodedata.category(character)[0] in "LMN"


def _stands_alone(text: str, start: int, end: int) -> bool:
    borders = [text[start - 1 : start + 1]] if start else []
    borders += [text[end - 1 : end + 1]] if end < len(text) else []
    return not any(_in_word(pair[0]) and _in_word(pair[1]) for pair in borders)
