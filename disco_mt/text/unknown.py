"""Characters that a vocabulary lacks (emoji, other scripts): set aside, and copied into the translation.

A model sees <unk> for all of them and would drop or invent something. So the text is translated without them,
and they are inserted again: at the start or end if they were there, else next to a neighbour that the
translation also contains (a number, a name, a punctuation mark), else at the same relative position. Nothing
is lost, and their order is kept.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

Span = tuple[int, int]

_JOINER = "\u200d"  # joins two emoji into one
_MODIFIERS = range(0x1F3FB, 0x1F400)  # skin tones
_TAGS = range(0xE0020, 0xE0080)  # end of a flag
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Aside:
    """A sentence, and the parts of it that are copied instead of translated."""

    text: str
    spans: tuple[Span, ...]  # in order, without overlaps

    @property
    def copied(self) -> tuple[str, ...]:
        return tuple(self.text[start:end] for start, end in self.spans)

    @property
    def between(self) -> list[str]:
        """The text before, between and after the spans, which is translated."""
        ends, starts = [0, *(end for _, end in self.spans)], [*(start for start, _ in self.spans), None]
        return [self.text[start:end] for start, end in zip(ends, starts, strict=True)]

    @property
    def known(self) -> str:
        """The text without the spans, with a space where words would run together."""
        known = ""
        for part in self.between:
            known += " " + part if _run_together(known, part) else part
        return known

    def restore(self, translation: str) -> str:
        """The translation of `known` with the spans inserted."""
        restored, at = "", 0
        for number, text in enumerate(self.copied):
            before, after = " ".join(self.between[: number + 1]), " ".join(self.between[number + 1 :])
            place = max(at, _place(before, after, translation))
            restored += translation[at:place]
            restored += _spaced(
                restored, text, translation[place:], before[-1:].isspace(), after[:1].isspace()
            )
            at = place
        return restored + translation[at:]


def set_aside(text: str, unknown: list[Span]) -> Aside:
    """Extend unknown spans to whole emoji and whole words, and merge neighbours."""
    spans: list[Span] = []
    for start, end in (_whole(text, span) for span in unknown):
        if spans and (start <= spans[-1][1] or _continues(text, spans[-1], (start, end))):
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((start, end))
    return Aside(text, tuple(spans))


def _whole(text: str, span: Span) -> Span:
    """The span with its combining marks, joiners and modifiers; of a letter, the whole word."""
    start, end = span
    while end < len(text) and not text[end].isspace() and (_extends(text[end]) or text[end - 1] == _JOINER):
        end += 1
    while start and not text[start - 1].isspace() and (_extends(text[start]) or text[start - 1] == _JOINER):
        start -= 1
    if _is_letter(text[start]) or _is_letter(text[end - 1]):
        while end < len(text) and _in_word(text[end]):
            end += 1
        while start and _in_word(text[start - 1]):
            start -= 1
    return start, end


def _continues(text: str, first: Span, second: Span) -> bool:
    """Are there only spaces between them, or between unknown letters also punctuation?"""
    between = text[first[1] : second[0]]
    if _is_letter(text[first[1] - 1]) and _is_letter(text[second[0]]):
        return not any(character.isalnum() for character in between)
    return not between.strip()


def _extends(character: str) -> bool:
    """Does it modify the character before it?"""
    code = ord(character)
    marks = unicodedata.category(character) in ("Mn", "Me", "Mc")
    return marks or character == _JOINER or code in _MODIFIERS or code in _TAGS


def _is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LM"


def _in_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


def _place(before: str, after: str, translation: str) -> int:
    """The position in the translation of something that was between `before` and `after`."""
    if not after.strip():
        return len(translation.rstrip())
    if not before.strip():
        return 0
    beside = _beside_neighbour(before, after, translation)
    return _relative(before, after, translation) if beside is None else beside


def _beside_neighbour(before: str, after: str, translation: str) -> int | None:
    """After the token before it or before the one after it; preferably the one without a space between."""
    sides = [
        (before[-1:].isspace(), _TOKEN.findall(before)[-1:], -1, 1),
        (after[:1].isspace(), _TOKEN.findall(after)[:1], 0, 0),
    ]
    for _, token, offset, edge in sorted(sides, key=lambda side: side[0]):
        if token and _is_literal(token[0]):
            number = _TOKEN.findall(before).count(token[0]) + offset
            total = _TOKEN.findall(before + " " + after).count(token[0])
            spans = [match.span() for match in _TOKEN.finditer(translation) if match[0] == token[0]]
            if len(spans) == total:
                return spans[number][edge]
    return None


def _relative(before: str, after: str, translation: str) -> int:
    """After the same proportion of words as in the source."""
    ends = [match.end() for match in re.finditer(r"\S+", translation)]
    number = len(before.split())
    words = round(len(ends) * number / (number + len(after.split())))
    return ends[words - 1] if words else 0


def _spaced(before: str, text: str, after: str, space_before: bool, space_after: bool) -> str:
    """`text` with spaces around it where the source has them or words would run together."""
    left = (space_before or _run_together(before, text)) and before and not before[-1:].isspace()
    right = (space_after or _run_together(text, after)) and after and not after[:1].isspace()
    return f"{' ' if left else ''}{text}{' ' if right else ''}"


def _is_literal(token: str) -> bool:
    """Is it probably the same in other languages: a number, a name, punctuation?"""
    return not token[0].isalpha() or token[0].isupper()


def _run_together(before: str, after: str) -> bool:
    return before[-1:].isalnum() and after[:1].isalnum()
