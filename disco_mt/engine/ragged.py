"""Rows of a flat matrix by the keys they attend to: padding exists inside attention and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Groups:
    """How rows that lie one after another are laid out as (groups, widest)."""

    number: int
    widest: int
    spread: Tensor | None  # (groups * widest,) the row at each place; None: every place has its own row
    places: Tensor | None  # (rows,) the place of each row

    @staticmethod
    def of(members: Tensor, number: int) -> Groups:
        """members: (rows,) the group of each row, rising, out of `number`."""
        counts = torch.bincount(members, minlength=number)
        widest = int(counts.max()) if number else 0
        if number * widest == len(members):
            return Groups(number, widest, None, None)
        before = counts.cumsum(0) - counts  # rows of earlier groups
        counting = torch.arange(len(members))
        places = members * widest + counting - before[members]
        spread = torch.zeros(number * widest, dtype=torch.long)  # padding repeats row 0, and is not read
        spread[places] = counting
        return Groups(number, widest, spread, places)

    def padded(self, rows: Tensor) -> Tensor:
        """(rows, ...) -> (groups, widest, ...)."""
        laid = rows if self.spread is None else rows.index_select(0, self.spread)
        return laid.view(self.number, self.widest, *rows.shape[1:])

    def flat(self, padded: Tensor) -> Tensor:
        """(groups, widest, ...) -> (rows, ...)."""
        laid = padded.reshape(self.number * self.widest, *padded.shape[2:])
        return laid if self.places is None else laid.index_select(0, self.places)
