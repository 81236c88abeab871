"""Pins: words or phrases that a translation must contain, and their tokenization.

A pinned word stays a whole word: it starts where a word starts, and the next token must not continue it.
`contains` checks whether a text has kept a pin.
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

JOINERS = "-‐‑'’_\u00ad\u200c\u200d"  # next to a word, these make it part of a longer one
CONTINUES = "@@"  # suffix of tokens that do not end their word in subword-nmt, the paper's BPE

_KEEPS_SPACES = ("raw", "sentencepiece")  # tokens contain the spaces of the text
_PLACE = re.compile(r"(.+)@(?:(-?\d{1,9}):)?(-?\d{0,9})", re.DOTALL)


@dataclass(frozen=True)
class Pin:
    """A word or phrase that the translation must contain."""

    text: str
    at: int | None = None  # position (from 0) of its first token in the target; None: the model chooses
    sentence: int = 0  # index of the sentence, if the text is split

    def __post_init__(self) -> None:
        if not _spaced(self.text):
            raise UserError("a pin must have a text: a word or a phrase")
        if self.at is not None:
            at_least(f"the place of pin {self.text[:40]!r}", self.at, 0)
        at_least(f"the sentence of pin {self.text[:40]!r}", self.sentence, 0)

    @staticmethod
    def parse(text: str) -> Pin:
        """The notation of the command line: "Haus", "das Haus@2" (at token 2), "Haus@1:2" (in sentence 1).

        A text that ends like a position takes one more @: "a@2@" is the text "a@2", anywhere.
        """
        match = _PLACE.fullmatch(text)
        if match is None:
            return Pin(text)
        phrase, sentence, at = match.groups()
        return Pin(phrase, int(at) if at else None, int(sentence or 0))

    def ids(self, target: Tokenizer) -> list[int] | str:
        """The tokens inside a sentence (or at its start, if pinned there).

        A string is the reason why the vocabulary cannot write the pin.
        """
        text = _spaced(self.text)
        ids = target.encode(text)
        if any(index < NUM_SPECIAL for index in ids):
            return f"the model has no token for a part of the pin {text[:80]!r}"
        if (decoded := target.decode(ids)) != text:
            return f"the tokenizer cannot write the pin {text[:80]!r}; it would become {decoded[:80]!r}"
        return ids if self.at == 0 or not _attached(text, target) else _without_space(text, target)

    @property
    def ends_a_word(self) -> bool:
        """Does it end in a letter or digit, so that the next token could make the word longer?"""
        return _in_word(_spaced(self.text)[-1])


def contains(text: str, phrase: str, language: str = "") -> bool:
    """Does the text contain the phrase as whole words (in languages without spaces: as a substring)?"""
    return _spaced(phrase) in text if is_spaceless(language) else find(text, phrase) >= 0


def find(text: str, phrase: str) -> int:
    """The first position of the phrase as whole words in the text; -1: there is none."""
    phrase = _spaced(phrase)
    places = (match.start() for match in re.finditer(f"(?={re.escape(phrase)})", text))
    return next((start for start in places if _stands_alone(text, start, start + len(phrase))), -1)


def words_of(text: str) -> list[str]:
    """The words of a text with spaces, without surrounding punctuation."""
    trimmed = (_trimmed(word) for word in text.split())
    return [word for word in trimmed if any(map(_is_letter, word))]


def may_follow(target: Tokenizer) -> list[bool]:
    """For every id: may it directly follow a pinned word? Only if it starts with a space or punctuation."""
    ids = range(target.vocabulary_size)
    if target.processing == "pretokenized" or not has_spaces(target):
        return [True for _ in ids]
    return [
        index >= NUM_SPECIAL and _starts_new_word(piece)
        for index, piece in zip(ids, target.pieces(ids), strict=True)
    ]


def may_precede(target: Tokenizer) -> list[bool]:
    """For every id: may it directly precede a pin? Pretokenized tokens may continue in the next one."""
    ids = range(target.vocabulary_size)
    if target.processing != "pretokenized":
        return [True for _ in ids]  # the pin brings its own space
    return [not token.endswith(CONTINUES) for token in target.tokens(ids)]


def has_spaces(target: Tokenizer) -> bool:
    """Does the tokenizer separate words by spaces?"""
    return target.processing not in _KEEPS_SPACES or not is_spaceless(target.language)


def _trimmed(word: str) -> str:
    letters = [n for n, character in enumerate(word) if _is_letter(character)]
    return word[letters[0] : letters[-1] + 1] if letters else ""


def _spaced(text: str) -> str:
    """With single spaces, as the tokenizer normalizes white space."""
    return re.sub(r"[ \t\r\n]+", " ", well_formed(text)).strip(" ")


def _attached(text: str, target: Tokenizer) -> bool:
    """Is it written without a space before it, like a full stop, or like everything in some languages?"""
    if target.processing not in _KEEPS_SPACES:
        return False  # spaces are removed only in detokenization
    closing = unicodedata.category(text[0]) in ("Po", "Pe", "Pf") and text[0] not in JOINERS + "¿¡"
    return closing or not has_spaces(target)


def _without_space(text: str, target: Tokenizer) -> list[int]:
    """The tokens of `text` without a space, found by encoding it after another character."""
    before = "," if _is_letter(text[0]) else "x"
    prefix = target.encode(before)
    ids = target.encode(before + text)
    if ids[: len(prefix)] != prefix:  # SentencePiece may have one piece for both
        return target.encode(text)
    return ids[len(prefix) :]


def _starts_new_word(piece: str) -> bool:
    first = piece[:1] or "\ufffd"  # an incomplete character
    punctuation = unicodedata.category(first)[0] in "PS" and first != "\ufffd"
    return first.isspace() or (punctuation and not _in_word(first))


def _in_word(character: str) -> bool:
    return _is_letter(character) or character in JOINERS


def _is_letter(character: str) -> bool:
    """Letters, combining marks and digits, as in the tokenizer."""
    return unicodedata.category(character)[0] in "LMN"


def _stands_alone(text: str, start: int, end: int) -> bool:
    borders = [text[start - 1 : start + 1]] if start else []
    borders += [text[end - 1 : end + 1]] if end < len(text) else []
    return not any(_in_word(pair[0]) and _in_word(pair[1]) for pair in borders)
