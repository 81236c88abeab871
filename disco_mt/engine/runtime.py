"""The arithmetic that the incremental engine needs from a runtime, which knows nothing of the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from disco_mt.nn.base import BestWords

RunJobs = Callable[[Sequence[Callable[[], Any]]], list[Any]]
"""Runs independent jobs, one after another or at the same time (split.py), and returns their results."""


def run_in_turn(jobs: Sequence[Callable[[], Any]]) -> list[Any]:
    return [job() for job in jobs]


@dataclass(frozen=True)
class Source:
    """Encoded sentences: computed once, shared by all length candidates."""

    keys: Tensor  # (2 * layers, sentences, heads, src, size): keys, values of layer 1, those of layer 2 ...
    visible: Tensor  # (sentences, src) bool
    length_log_probs: Tensor  # (sentences, classes)

    def keep(self, chosen: Tensor) -> Source:
        """The chosen sentences (indices or mask), cut to the longest of them."""
        visible = self.visible[chosen]
        width = int(visible.sum(dim=1).max()) if len(visible) else 0
        keys = self.keys[:, chosen, :, :width].contiguous()
        return Source(keys, visible[:, :width].contiguous(), self.length_log_probs[chosen])

    def join(self, other: Source) -> Source:
        """The sentences of both, padded to the same width."""
        width = max(self.visible.shape[1], other.visible.shape[1])
        first = self._padded(width)
        second = other._padded(width)
        return Source(
            torch.cat([first.keys, second.keys], dim=1),
            torch.cat([first.visible, second.visible]),
            torch.cat([first.length_log_probs, second.length_log_probs]),
        )

    def _padded(self, width: int) -> Source:
        padding = width - self.visible.shape[1]
        keys = F.pad(self.keys, (0, 0, 0, padding))
        return Source(keys, F.pad(self.visible, (0, padding)), self.length_log_probs)


@dataclass(frozen=True)
class Rows:
    """The positions to predict in one pass, of any candidates, as one flat list.

    Sorted by sentence, then by candidate.
    """

    places: Tensor  # (rows,) position in the target
    candidates: Tensor  # (rows,) the candidate that a row belongs to
    sentences: Tensor  # (rows,) the sentence that a row belongs to


class Runtime(Protocol):
    """Weights and arithmetic. The result for a row must not depend on which other rows there are."""

    dtype: torch.dtype
    longest_target: int
    start: int
    """Key slots before those of the words: 1 in models with a start token, else 0."""

    def encode(self, source: Tensor) -> Source:
        """source: (sentences, src), EOS at the end of each."""
        ...

    def put_keys(self, tokens: Tensor, candidates: Tensor, slots: Tensor, into: Tensor) -> None:
        """Project tokens (n,) to their contextless keys and values in all layers, and write these to `into`.

        candidates, slots: (n,) where each belongs. Slot s has position vector s; the word at place n has slot
        `start` + n. into: (2 * layers, candidates, heads, slots, size).
        """
        ...

    def first_pass(self, rows: Rows, anchors: Tensor, source: Source) -> Tensor:
        """Hidden states, (rows, width), of rows that see only EOS. Not for models with a start token.

        anchors: (2 * layers, candidates, width), keys and values of each EOS. Attention to a single token
        needs neither queries nor scores.
        """
        ...

    def later_pass(self, rows: Rows, visible: Tensor, keys: Tensor, source: Source) -> Tensor:
        """Hidden states, (rows, width), given what each row sees.

        visible: (rows, slots) bool; keys: (2 * layers, candidates, heads, slots, size).
        """
        ...

    def best_words(
        self, hidden: Tensor, entries: Tensor | None, run_jobs: RunJobs = run_in_turn
    ) -> BestWords:
        """The most likely word of each hidden state, among all words or only among `entries` (n,)."""
        ...

    def word_log_probs(self, hidden: Tensor, ids: Tensor) -> Tensor:
        """log P of one given word per row, (rows,): always in float32."""
        ...
