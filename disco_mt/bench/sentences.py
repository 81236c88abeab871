"""What is translated: texts for trained models, random ids of a given length where weights are random.

Random weights would make translations of random lengths in random numbers of passes. So each random sentence
has a structure (structures.py): the lengths of its candidates, and which rows its passes predict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.engine.skipping import Structure


@dataclass(frozen=True)
class Sentence:
    """One input: a text, or source ids (without EOS) and the structure of its decoding."""

    text: str = ""
    source: tuple[int, ...] = ()
    structure: Structure | None = None

    @property
    def words(self) -> int:
        """Forced length of the translation; 0: as the model likes."""
        return self.structure.lengths[0] if self.structure else 0


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


def random_sentences(structures: Sequence[Structure], vocabulary: int) -> list[Sentence]:
    """Random source ids, as many as the likeliest candidate has words; the same ones every time."""
    generator = torch.Generator().manual_seed(1)
    return [
        Sentence("", tuple(torch.randint(NUM_SPECIAL, vocabulary, (words,), generator=generator).tolist()), s)
        for s in structures
        for words in (s.lengths[0],)
    ]
