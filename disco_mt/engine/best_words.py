"""The likeliest word of each row and its log probability, without a (rows, vocabulary) softmax.

Entries go block by block, so that what is computed is still in the processor's cache when it is reduced. The
place of a maximum costs more than the maximum: it is looked for at the end, in the one block that has it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from disco_mt.models.base import BestWords
from disco_mt.special import NUM_SPECIAL

_ROWS = 128  # rows and
_ENTRIES = 1024  # vocabulary entries that are computed at a time: half a megabyte


class OutputTable:
    """The output matrix, cut into blocks."""

    def __init__(self, table: Tensor) -> None:
        """table: (width, vocabulary)."""
        self.blocks = [block.contiguous() for block in torch.split(table, _ENTRIES, dim=1)]
        self.size = min(_ENTRIES, table.shape[1])

    def best(self, hidden: Tensor) -> BestWords:
        """Softmax over all entries, argmax over words only. hidden: (rows, width)."""
        parts = [self._best(rows) for rows in torch.split(hidden, _ROWS)]
        return BestWords(torch.cat([ids for ids, _ in parts]), torch.cat([logs for _, logs in parts]))

    def _best(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        rows = len(hidden)
        logits = hidden.new_full((len(self.blocks), rows, self.size), -torch.inf)
        scratch = torch.empty_like(logits[0])
        tops, sums = hidden.new_empty(2, len(self.blocks), rows)
        for number, block in enumerate(self.blocks):
            size = block.shape[1]
            now = torch.mm(hidden, block, out=logits[number]) if size == self.size else logits[number]
            if size != self.size:
                now[:, :size] = hidden @ block
            torch.amax(now, dim=1, out=tops[number])
            torch.sub(now, tops[number, :, None], out=scratch)
            torch.sum(scratch.exp_(), dim=1, out=sums[number])
        total = (tops + sums.log_()).logsumexp(dim=0)
        logits[0, :, :NUM_SPECIAL] = -torch.inf  # never produced
        torch.amax(logits[0], dim=1, out=tops[0])
        best, winner = tops.max(dim=0)  # of equal blocks the first
        places = logits[winner, torch.arange(rows)].argmax(dim=1)
        return winner * self.size + places, best - total
