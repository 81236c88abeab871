"""What is translated: texts for trained models, random ids of a given length where weights are random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from disco_mt.special import NUM_SPECIAL


@dataclass(frozen=True)
class Sentence:
    """One input: a text, or source ids (without EOS) and the number of words that comes out."""

    text: str = ""
    source: tuple[int, ...] = ()
    words: int = 0  # forced length of the translation; 0: as the model likes


@dataclass(frozen=True)
class Outcome:
    """What a system made of a sentence, and the work it counts."""

    words: int  # of the translation, EOS apart
    steps: int  # passes, the paper's Step
    rows: int  # decoder rows (a position of a candidate in a pass) that were computed to the vocabulary
    keys: int  # words whose self-attention keys and values were projected, all layers being one
    plain_rows: int  # rows that the plain algorithm computes for the same result
    source: int  # tokens, EOS included
    text: str = ""


def random_sentences(lengths: Sequence[int], each: int, vocabulary: int) -> list[Sentence]:
    """`each` sentences of every length, target as long as source; the same ones every time."""
    generator = torch.Generator().manual_seed(1)
    return [
        Sentence(
            "",
            tuple(torch.randint(NUM_SPECIAL, vocabulary, (words,), generator=generator).tolist()),
            words,
        )
        for words in lengths
        for _ in range(each)
    ]
