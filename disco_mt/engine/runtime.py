"""What the incremental engine asks of a runtime: the arithmetic, without any knowledge of the algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from disco_mt.models.base import BestWords


@dataclass(frozen=True)
class Source:
    """Encoded sentences: computed once, shared by all length candidates."""

    keys: Tensor  # (2 * layers, sentences, src, width): keys, values of layer 1, keys, values of layer 2 ...
    visible: Tensor  # (sentences, src) bool
    length_log_probs: Tensor  # (sentences, classes)

    def keep(self, chosen: Tensor) -> Source:
        """The chosen sentences (numbers or mask), cut to the longest of them."""
        visible = self.visible[chosen]
        width = int(visible.sum(dim=1).max()) if len(visible) else 0
        return Source(
            self.keys[:, chosen, :width].contiguous(), visible[:, :width], self.length_log_probs[chosen]
        )

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
    entries: Tensor | None = None  # (n,) vocabulary ids to choose from; None: all words


class Runtime(Protocol):
    """Weights and arithmetic. Nothing of what a row becomes may depend on which other rows there are."""

    dtype: torch.dtype
    longest_target: int

    def encode(self, source: Tensor) -> Source:
        """source: (sentences, src), EOS at the end of each."""
        ...

    def put_keys(self, tokens: Tensor, places: Tensor, into: Tensor, spots: Tensor) -> None:
        """Contextless keys and values of tokens (n,) at positions `places` (n,), in all layers.

        They are put where `spots` (n,) says. into: (2 * layers, all spots, width).
        """
        ...

    def first_pass(self, rows: Rows, anchors: Tensor, source: Source) -> BestWords:
        """Predictions from EOS alone. anchors: (2 * layers, candidates, width), keys and values of each EOS.

        Who sees one token gives it all attention: there are no queries and no scores.
        """
        ...

    def predict(self, rows: Rows, visible: Tensor, keys: Tensor, source: Source) -> BestWords:
        """Predictions from what each row sees.

        visible: (rows, tgt) bool; keys: (2 * layers, candidates, tgt, width).
        """
        ...
