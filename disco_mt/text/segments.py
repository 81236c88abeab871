"""Texts as segments that are translated separately: sentences, or parts of those that are too long."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from disco_mt.core.special_tokens import UNK
from disco_mt.text.lines import well_formed
from disco_mt.text.sentences import split_sentences
from disco_mt.text.tokenizer import Tokenizer
from disco_mt.text.unknown import Aside, set_aside

Long = Literal["split", "refuse"]
"""What to do with a sentence that is longer than the model allows."""


@dataclass(frozen=True)
class Segment:
    """A sentence or a part of one, which is translated as a whole."""

    ids: list[int]
    aside: Aside | None = None  # parts that the vocabulary lacks, to be copied


@dataclass(frozen=True)
class Segmenter:
    """Cuts texts into segments of at most `longest` tokens (without EOS)."""

    tokenizer: Tokenizer
    longest: int

    def segments(self, text: str, split: bool, long: Long) -> list[Segment] | str:
        """The segments of a text; a string is the reason why it is refused."""
        sentences = split_sentences(text, self.tokenizer.language) if split else [text]
        segments: list[Segment] = []
        for sentence in self._encoded(sentences):
            if len(sentence.ids) <= self.longest:
                segments.append(sentence)
            elif long == "split":
                segments += self._cut_sentence(sentence)
            else:
                return self.too_long(len(sentence.ids))
        return [segment for segment in segments if segment.ids or segment.aside]

    def too_long(self, tokens: int) -> str:
        """Why a sentence of so many tokens cannot be translated; "" if it can."""
        if tokens <= self.longest:
            return ""
        return f"a sentence has {tokens} tokens, but the model reads at most {self.longest}"

    def _encoded(self, sentences: list[str]) -> list[Segment]:
        """Sentences as ids; parts that the vocabulary lacks are set aside, to be copied."""
        segments = [Segment(ids) for ids in self.tokenizer.encode_batch(sentences)]
        for number, sentence in enumerate(sentences):
            if unknown := UNK in segments[number].ids and self.tokenizer.unknown_spans(sentence):
                aside = set_aside(well_formed(sentence), unknown)
                segments[number] = Segment(self.tokenizer.encode(aside.known), aside)
        return segments

    def _cut_sentence(self, sentence: Segment) -> list[Segment]:
        """Parts that are short enough. What was set aside goes to the end, since its position is lost."""
        *parts, last = (Segment(ids) for ids in self._cut(sentence.ids))
        if sentence.aside is None:
            return [*parts, last]
        copied = " ".join(sentence.aside.copied)
        return [*parts, replace(last, aside=Aside(copied, ((0, len(copied)),)))]

    def _cut(self, ids: list[int]) -> list[list[int]]:
        """Parts of at most `longest` tokens, cut between words if a word starts in the second half."""
        parts = []
        while len(ids) > self.longest:
            pieces = self.tokenizer.pieces(ids[: self.longest + 1])
            starts = [n for n in range(self.longest // 2, self.longest + 1) if pieces[n].startswith(" ")]
            end = max(1, starts[-1] if starts else self.longest)
            parts.append(ids[:end])
            ids = ids[end:]
        return [*parts, ids]
