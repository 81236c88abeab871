"""Who is predicted anew? The rule that makes the engine exact, and ways to drive it for measurements.

A row's prediction depends on nothing but the source, its position and the tokens it sees. If none of these
changed in the last pass, its prediction would be the same: it need not be computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from disco_mt.decoding.length_beam import best_lengths


class Skipping(Protocol):
    """The decisions of a decoding that depend on what the model said.

    `steps` (sentences,) are passes done, per sentence; masks are (sentences, K, tgt).
    """

    def lengths(self, log_probs: Tensor, beam: int, longest: int) -> Tensor:
        """Words of each candidate, likeliest length first. (sentences, classes) -> (sentences, K)."""
        ...

    def stale(self, steps: Tensor, visible: Tensor, changed: Tensor) -> Tensor:
        """Rows to predict in the next pass. visible: (sentences, K, tgt, tgt)."""
        ...

    def changed(self, steps: Tensor, before: Tensor, now: Tensor) -> Tensor:
        """Tokens that are other than one pass ago."""
        ...

    def settled(self, steps: Tensor, unchanged: Tensor) -> Tensor:
        """Sentences that are finished. unchanged: (sentences,) is what must come to rest as it was?"""
        ...


class Exact:
    """The truth: what Algorithm 1 does, without what it need not do."""

    def lengths(self, log_probs: Tensor, beam: int, longest: int) -> Tensor:
        """The K likeliest."""
        return best_lengths(log_probs, beam, longest)[0]

    def stale(self, steps: Tensor, visible: Tensor, changed: Tensor) -> Tensor:
        """Whoever sees a token that changed."""
        return (visible & changed[:, :, None]).any(dim=-1)

    def changed(self, steps: Tensor, before: Tensor, now: Tensor) -> Tensor:
        """By comparison."""
        return before != now

    def settled(self, steps: Tensor, unchanged: Tensor) -> Tensor:
        """Y^{t-1, k*} = Y^{t, k*}."""
        return unchanged


@dataclass(frozen=True)
class Structure:
    """The work of one sentence's decoding, without its words: enough to repeat it with other weights."""

    lengths: tuple[int, ...]  # words of each candidate
    rows: tuple[tuple[tuple[int, ...], ...], ...]  # rows[t][k]: positions predicted in pass t + 1
    changed: tuple[tuple[tuple[int, ...], ...], ...]  # changed[t][k]: of them, those that became another word

    @property
    def passes(self) -> int:
        """How many passes there are."""
        return len(self.rows)

    @staticmethod
    def fixed(lengths: tuple[int, ...], shares: tuple[float, ...]) -> Structure:
        """In each pass the same share of every candidate's rows, every one a new word: no work is hidden."""
        rows = tuple(
            tuple(tuple(range(length - round(share * length), length)) for length in lengths)
            for share in shares
        )
        return Structure(lengths, rows, rows)


class Driven(Exact):
    """Repeats a structure, whatever the model says; every sentence is that sentence."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.rows = torch.stack([_mask(structure, each) for each in structure.rows])  # (passes, K, tgt)
        self.new = torch.stack([_mask(structure, each) for each in structure.changed])

    def lengths(self, log_probs: Tensor, beam: int, longest: int) -> Tensor:
        """Those of the structure."""
        return torch.tensor(self.structure.lengths).expand(len(log_probs), -1)

    def stale(self, steps: Tensor, visible: Tensor, changed: Tensor) -> Tensor:
        """The rows of the next pass."""
        return self.rows[steps]

    def changed(self, steps: Tensor, before: Tensor, now: Tensor) -> Tensor:
        """Those of the pass just done."""
        return self.new[steps - 1]

    def settled(self, steps: Tensor, unchanged: Tensor) -> Tensor:
        """After as many passes."""
        return steps >= self.structure.passes


def _mask(structure: Structure, places: tuple[tuple[int, ...], ...]) -> Tensor:
    """(K, longest + 1) bool; EOS stands behind each candidate's words."""
    width = max(structure.lengths) + 1
    chosen = [torch.isin(torch.arange(width), torch.tensor(each, dtype=torch.long)) for each in places]
    return torch.stack(chosen)


class Recorded(Exact):
    """Notes the structure of sentences that are decoded one at a time."""

    def __init__(self) -> None:
        self.structures: list[Structure] = []

    def lengths(self, log_probs: Tensor, beam: int, longest: int) -> Tensor:
        """A new sentence: its first pass predicts every word."""
        if len(log_probs) != 1:
            raise ValueError("structures are recorded of one sentence at a time")
        found = super().lengths(log_probs, beam, longest)
        lengths = tuple(found[0].tolist())
        every = tuple(tuple(range(length)) for length in lengths)
        self.structures.append(Structure(lengths, (every,), (every,)))
        return found

    def stale(self, steps: Tensor, visible: Tensor, changed: Tensor) -> Tensor:
        """By the exact rule, and noted."""
        rows = super().stale(steps, visible, changed)
        last = self.structures[-1]
        self.structures[-1] = Structure(last.lengths, (*last.rows, _places(rows)), last.changed)
        return rows

    def changed(self, steps: Tensor, before: Tensor, now: Tensor) -> Tensor:
        """By the exact rule, and noted."""
        new = super().changed(steps, before, now)
        last = self.structures[-1]
        self.structures[-1] = Structure(last.lengths, last.rows, (*last.changed, _places(new)))
        return new


def _places(mask: Tensor) -> tuple[tuple[int, ...], ...]:
    """(1, K, tgt) bool -> the true places of each candidate."""
    return tuple(tuple(row.nonzero()[:, 0].tolist()) for row in mask[0])
