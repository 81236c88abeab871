"""The likeliest word of each row and its log probability, without a (rows, vocabulary) softmax.

Entries go block by block, so that what is computed is still in the processor's cache when it is reduced. The
place of a maximum costs more than the maximum: it is looked for at the end, in the one block that has it.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.nn.base import BestWords, given_log_probs

_ROWS = 128  # rows and
_ENTRIES = 1024  # vocabulary entries that are computed at a time: half a megabyte
_PART = 8  # entries that are looked at twice


Cut = tuple[int, int, int]
"""A block of the vocabulary: its first entry, the one behind its last, the size of its parts."""


class OutputTable:
    """The output matrix, cut into blocks."""

    def __init__(self, table: Tensor, bias: Tensor | None = None) -> None:
        """table: (width, vocabulary); bias: (vocabulary,)."""
        self.blocks = [block.contiguous() for block in torch.split(table, _ENTRIES, dim=1)]
        self.biases = [None] * len(self.blocks) if bias is None else torch.split(bias, _ENTRIES)
        self.size = table.shape[1]

    def best(self, hidden: Tensor) -> BestWords:
        """Softmax over all entries, argmax over words only. hidden: (rows, width)."""
        parts = [self._best(rows) for rows in torch.split(hidden, _ROWS)]
        return BestWords(torch.cat([ids for ids, _ in parts]), torch.cat([logs for _, logs in parts]))

    def _best(self, hidden: Tensor) -> BestWords:
        logits = hidden.new_empty(len(hidden), self.size)
        reduction = Reduction(logits)
        for block, bias, part in zip(self.blocks, self.biases, reduction.parts, strict=True):
            torch.mm(hidden, block, out=part)
            reduction.take(part if bias is None else part.add_(bias))
        return reduction.result()


def best_among(hidden: Tensor, table: Tensor, entries: Tensor, bias: Tensor | None = None) -> BestWords:
    """The best of a few words, softmax over them alone.

    table: (vocabulary, width); entries: (n,) ids; bias: (vocabulary,).
    """
    logits = hidden @ table.index_select(0, entries).T
    logits = logits if bias is None else logits + bias[entries]
    best, places = logits.max(dim=1)
    return BestWords(entries[places], best - logits.logsumexp(dim=1))


def given_words(hidden: Tensor, table: Tensor, ids: Tensor, bias: Tensor | None = None) -> Tensor:
    """log P of one word per row, softmax over all entries.

    table: (vocabulary, width); ids: (rows,); bias: (vocabulary,).
    """
    parts = zip(torch.split(hidden, _ROWS), torch.split(ids, _ROWS), strict=True)
    return torch.cat([given_log_probs(_logits(rows, table, bias), wanted) for rows, wanted in parts])


def _logits(hidden: Tensor, table: Tensor, bias: Tensor | None) -> Tensor:
    scores = hidden @ table.T
    return scores if bias is None else scores + bias


class Blocks:
    """How a vocabulary is cut for a runtime that keeps no logits: into blocks, and these into small parts.

    It tells the largest logit of each part. The entries of a part are a fixed distance from each other, so
    that the maxima of neighbouring parts are found together. Which entry it is, a second look decides.
    """

    def __init__(self, vocabulary: int) -> None:
        whole = NUM_SPECIAL + (vocabulary - NUM_SPECIAL) // _PART * _PART
        starts = range(NUM_SPECIAL, whole, _ENTRIES)
        words = [(start, min(start + _ENTRIES, whole), _PART) for start in starts]
        rest = [(whole, vocabulary, vocabulary - whole)] if whole < vocabulary else []
        self.cuts: list[Cut] = [(0, NUM_SPECIAL, NUM_SPECIAL), *words, *rest]
        sizes = torch.tensor([(end - start) // part for start, end, part in self.cuts[1:]])
        self.strides = sizes  # (blocks of words,) parts in a block, and how far apart a part's entries are
        self.firsts = sizes.cumsum(0) - sizes  # (blocks of words,) the first part of each
        self.starts = torch.tensor([start for start, _, _ in self.cuts[1:]])
        self.parts, self.last, self.most = int(sizes.sum()), vocabulary - 1, int(sizes.max())

    def shares(self, number: int) -> list[list[Cut]]:
        """Blocks for so many threads, the special tokens with the first words."""
        first, *others = self.cuts
        number = max(1, min(number, len(others)))
        ends = [len(others) * place // number for place in range(number + 1)]
        shares = [others[start:end] for start, end in pairwise(ends)]
        return [[first, *shares[0]], *shares[1:]]

    def best(
        self,
        hidden: Tensor,
        table: Tensor,
        tops: list[Tensor],
        marks: Tensor,
        sums: Tensor,
        scale: Tensor | None,
        bias: Tensor | None = None,
    ) -> BestWords:
        """tops: (rows, parts) of each share; marks, sums: (rows, blocks); table: (vocabulary, width).

        bias: (vocabulary,).
        """
        unit = 1.0 if scale is None else scale
        total = (marks * unit + sums.log()).logsumexp(dim=1, keepdim=True)
        top, block = marks[:, 1:].max(dim=1, keepdim=True)  # of words
        part = self._tops_of(block, tops).argmax(dim=1, keepdim=True)  # of the block, which has the largest
        places = (self.starts[block] + part + self.strides[block] * torch.arange(_PART)).clamp_(max=self.last)
        entries = table.index_select(0, places.flatten()).view(*places.shape, -1)
        logits = torch.bmm(hidden[:, None], entries.transpose(1, 2))[:, 0]
        logits = logits if bias is None else logits + bias[places]
        ids = places.gather(1, logits.argmax(dim=1, keepdim=True))
        return BestWords(ids[:, 0], (top * unit - total)[:, 0])

    def _tops_of(self, block: Tensor, shares: list[Tensor]) -> Tensor:
        """The tops of one block in each row. block: (rows, 1); shares are large, so they stay apart."""
        places = (self.firsts[block] + torch.arange(self.most)).clamp_(max=self.parts - 1)
        found, before = shares[0].gather(1, places.clamp(max=shares[0].shape[1] - 1)), 0
        for share, tops in pairwise(shares):
            before += share.shape[1]
            theirs = tops.gather(1, (places - before).clamp_(0, tops.shape[1] - 1))
            found = torch.where(places < before, found, theirs)
        return found


class Reduction:
    """Maxima and sums of exponentials of logits (rows, vocabulary), a block at a time."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits
        self.parts = torch.split(logits, _ENTRIES, dim=1)
        self.scratch = torch.empty(len(logits), self.parts[0].shape[1], dtype=logits.dtype)
        self.tops: list[Tensor] = []
        self.sums: list[Tensor] = []

    def take(self, part: Tensor) -> None:
        """part: (rows, entries), just computed."""
        top = part.amax(dim=1, keepdim=True)
        apart = torch.sub(part, top, out=self.scratch[:, : part.shape[1]])
        self.tops.append(top)
        self.sums.append(apart.exp_().sum(dim=1, keepdim=True))

    def result(self) -> BestWords:
        """Of all blocks."""
        total = (torch.cat(self.tops, dim=1) + torch.cat(self.sums, dim=1).log_()).logsumexp(dim=1)
        self.parts[0][:, :NUM_SPECIAL] = -torch.inf  # never produced
        self.tops[0] = self.parts[0].amax(dim=1, keepdim=True)
        best, winner = torch.cat(self.tops, dim=1).max(dim=1, keepdim=True)  # of equal blocks the first
        places = winner * _ENTRIES + torch.arange(self.scratch.shape[1])
        within = self.logits.gather(1, places.clamp_(max=self.logits.shape[1] - 1)).argmax(dim=1)
        return BestWords(winner[:, 0] * _ENTRIES + within, best[:, 0] - total)
