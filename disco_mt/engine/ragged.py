"""Flat rows, grouped by the keys they attend to: only attention itself sees padding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Groups:
    """How consecutive rows are laid out as (groups, widest)."""

    number: int
    widest: int
    spread: Tensor | None  # (groups * widest,) the row at each place; None: there is no padding
    places: Tensor | None  # (rows,) the place of each row

    @staticmethod
    def of(members: Tensor, number: int) -> Groups:
        """members: (rows,) the group of each row, ascending; number: how many groups there are."""
        counts = torch.bincount(members, minlength=number)
        widest = int(counts.max()) if number else 0
        if number * widest == len(members):
            return Groups(number, widest, None, None)
        before = counts.cumsum(0) - counts  # rows of earlier groups
        rows = torch.arange(len(members))
        places = members * widest + rows - before[members]
        spread = torch.zeros(number * widest, dtype=torch.long)  # padding repeats row 0 and is ignored
        spread[places] = rows
        return Groups(number, widest, spread, places)

    def padded(self, rows: Tensor) -> Tensor:
        """(rows, ...) -> (groups, widest, ...)."""
        padded = rows if self.spread is None else rows.index_select(0, self.spread)
        return padded.view(self.number, self.widest, *rows.shape[1:])

    def flat(self, padded: Tensor) -> Tensor:
        """(groups, widest, ...) -> (rows, ...)."""
        flat = padded.reshape(self.number * self.widest, *padded.shape[2:])
        return flat if self.places is None else flat.index_select(0, self.places)
