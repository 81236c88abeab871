"""Which positions are predicted again: the exact rule, and ways to record and replay it for benchmarks.

A row's prediction depends only on the source, its position and the tokens it sees. If none of these has
changed in the last pass, the prediction is the same and need not be computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from disco_mt.decoding.length_beam import best_lengths


class Skipping(Protocol):
    """The decisions in decoding that depend on predictions.

    steps: (sentences,) passes done per sentence; masks are (sentences, K, tgt).
    """

    def lengths(self, log_probs: Tensor, beam: int, longest: int) -> Tensor:
        """Words of each candidate, most likely length first. (sentences, classes) -> (sentences, K)."""
        ...

    def stale(self, steps: Tensor, visible: Tensor, changed: Tensor) -> Tensor:
        """Rows to predict in the next pass. visible: (sentences, K, tgt, tgt)."""
        ...

    def changed(self, steps: Tensor, before: Tensor, now: Tensor) -> Tensor:
        """Tokens that differ from the pass before."""
        ...

    def settled(self, steps: Tensor, unchanged: Tensor) -> Tensor:
        """Finished sentences. unchanged: (sentences,) bool, of the candidates that must converge."""
        ...


class Exact:
    """What Algorithm 1 does, without the redundant predictions."""

    def lengths(self, log_probs: Tensor, beam: int, longest: int) -> Tensor:
        return best_lengths(log_probs, beam, longest)[0]

    def stale(self, steps: Tensor, visible: Tensor, changed: Tensor) -> Tensor:
        """Rows that see a changed token."""
        return (visible & changed[:, :, None]).any(dim=-1)

    def changed(self, steps: Tensor, before: Tensor, now: Tensor) -> Tensor:
        return before != now

    def settled(self, steps: Tensor, unchanged: Tensor) -> Tensor:
        return unchanged  # Y^{t-1, k*} = Y^{t, k*}


@dataclass(frozen=True)
class Structure:
    """The work of decoding one sentence, without its words: enough to repeat it with other weights."""

    lengths: tuple[int, ...]  # words of each candidate
    rows: tuple[tuple[tuple[int, ...], ...], ...]  # rows[t][k]: positions predicted in pass t + 1
    changed: tuple[tuple[tuple[int, ...], ...], ...]  # changed[t][k]: those of them whose word changed

    @property
    def passes(self) -> int:
        return len(self.rows)

    @staticmethod
    def fixed(lengths: tuple[int, ...], shares: tuple[float, ...]) -> Structure:
        """In each pass the same share of every candidate's rows, all of which change their word."""
        rows = tuple(
            tuple(tuple(range(length - round(share * length), length)) for length in lengths)
            for share in shares
        )
        return Structure(lengths, rows, rows)


class Driven(Exact):
    """Replays a structure, whatever the model predicts, for every sentence."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self.rows = torch.stack([_mask(structure, rows) for rows in structure.rows])  # (passes, K, tgt)
        self.new = torch.stack([_mask(structure, rows) for rows in structure.changed])

    def lengths(self, log_probs: Tensor, beam: int, longest: int) -> Tensor:
        return torch.tensor(self.structure.lengths).expand(len(log_probs), -1)

    def stale(self, steps: Tensor, visible: Tensor, changed: Tensor) -> Tensor:
        return self.rows[steps]

    def changed(self, steps: Tensor, before: Tensor, now: Tensor) -> Tensor:
        return self.new[steps - 1]

    def settled(self, steps: Tensor, unchanged: Tensor) -> Tensor:
        return steps >= self.structure.passes


def _mask(structure: Structure, places: tuple[tuple[int, ...], ...]) -> Tensor:
    """(K, longest + 1) bool, with one place for EOS."""
    width = max(structure.lengths) + 1
    masks = [torch.isin(torch.arange(width), torch.tensor(chosen, dtype=torch.long)) for chosen in places]
    return torch.stack(masks)


class Recorded(Exact):
    """Records the structure of sentences that are decoded one at a time."""

    def __init__(self) -> None:
        self.structures: list[Structure] = []

    def lengths(self, log_probs: Tensor, beam: int, longest: int) -> Tensor:
        """Begin a new sentence: its first pass predicts every word."""
        if len(log_probs) != 1:
            raise ValueError("structures can only be recorded of one sentence at a time")
        chosen = super().lengths(log_probs, beam, longest)
        lengths = tuple(chosen[0].tolist())
        all_words = tuple(tuple(range(length)) for length in lengths)
        self.structures.append(Structure(lengths, (all_words,), (all_words,)))
        return chosen

    def stale(self, steps: Tensor, visible: Tensor, changed: Tensor) -> Tensor:
        rows = super().stale(steps, visible, changed)
        last = self.structures[-1]
        self.structures[-1] = Structure(last.lengths, (*last.rows, _places(rows)), last.changed)
        return rows

    def changed(self, steps: Tensor, before: Tensor, now: Tensor) -> Tensor:
        new = super().changed(steps, before, now)
        last = self.structures[-1]
        self.structures[-1] = Structure(last.lengths, last.rows, (*last.changed, _places(new)))
        return new


def _places(mask: Tensor) -> tuple[tuple[int, ...], ...]:
    """(1, K, tgt) bool -> the places of each candidate that are True."""
    return tuple(tuple(row.nonzero()[:, 0].tolist()) for row in mask[0])
