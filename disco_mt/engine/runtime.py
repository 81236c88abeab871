"""What the incremental engine asks of a runtime: the arithmetic, without any knowledge of the algorithm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from disco_mt.nn.base import BestWords


@dataclass(frozen=True)
class Source:
    """Encoded sentences: computed once, shared by all length candidates."""

    keys: Tensor  # (2 * layers, sentences, heads, src, size): keys, values of layer 1, those of layer 2 ...
    visible: Tensor  # (sentences, src) bool
    length_log_probs: Tensor  # (sentences, classes)

    def keep(self, chosen: Tensor) -> Source:
        """The chosen sentences (numbers or mask), cut to the longest of them."""
        visible = self.visible[chosen]
        width = int(visible.sum(dim=1).max()) if len(visible) else 0
        keys = self.keys[:, chosen, :, :width].contiguous()
        return Source(keys, visible[:, :width].contiguous(), self.length_log_probs[chosen])

    def join(self, other: Source) -> Source:
        """These sentences, then those."""
        width = max(self.visible.shape[1], other.visible.shape[1])
        one, two = self._widened(width), other._widened(width)
        return Source(
            torch.cat([one.keys, two.keys], dim=1),
            torch.cat([one.visible, two.visible]),
            torch.cat([one.length_log_probs, two.length_log_probs]),
        )

    def _widened(self, width: int) -> Source:
        more = width - self.visible.shape[1]
        keys, visible = F.pad(self.keys, (0, 0, 0, more)), F.pad(self.visible, (0, more))
        return Source(keys, visible, self.length_log_probs)


@dataclass(frozen=True)
class Rows:
    """The positions to predict in one pass, of whatever candidates, as one flat list.

    Rows of a candidate stand together, candidates in order, those of a sentence together.
    """

    places: Tensor  # (rows,) position in the target
    candidates: Tensor  # (rows,) whose words a row sees
    sentences: Tensor  # (rows,) whose source it sees


T = TypeVar("T")


def one_after_another(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Their results. What does the jobs may also do them at the same time (split.py)."""
    return [job() for job in jobs]


class Runtime(Protocol):
    """Weights and arithmetic. Nothing of what a row becomes may depend on which other rows there are."""

    dtype: torch.dtype
    longest_target: int
    start: int
    """Slots of keys in front of those of the words: 1 in models with a start token, else 0."""

    def encode(self, source: Tensor) -> Source:
        """source: (sentences, src), EOS at the end of each."""
        ...

    def put_keys(self, tokens: Tensor, candidates: Tensor, slots: Tensor, into: Tensor) -> None:
        """Put contextless keys and values of tokens (n,), in all layers, where they belong.

        They are those of candidates (n,) in `slots` (n,), of which each has the position of its number. The
        word at place n has slot `start` + n. into: (2 * layers, candidates, heads, slots, size).
        """
        ...

    def first_pass(self, rows: Rows, anchors: Tensor, source: Source) -> Tensor:
        """Hidden states, (rows, width), of rows that see EOS alone. Not for models with a start token.

        anchors: (2 * layers, candidates, width), keys and values of each EOS. Who sees one token gives it all
        attention: there are no queries and no scores.
        """
        ...

    def later_pass(self, rows: Rows, visible: Tensor, keys: Tensor, source: Source) -> Tensor:
        """Hidden states, (rows, width), from what each row sees.

        visible: (rows, slots) bool; keys: (2 * layers, candidates, heads, slots, size).
        """
        ...

    def best_words(
        self, hidden: Tensor, entries: Tensor | None, together: Callable[..., list[Any]] = one_after_another
    ) -> BestWords:
        """The likeliest word of each hidden state, out of all or out of `entries` (n,) alone.

        together: how jobs are done that do not depend on each other.
        """
        ...

    def word_log_probs(self, hidden: Tensor, ids: Tensor) -> Tensor:
        """log P of given words, (rows,), out of all: a product in float32 whatever the runtime has else."""
        ...
