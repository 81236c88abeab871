"""The most likely word of each row and its log probability, without a (rows, vocabulary) softmax.

The vocabulary is processed in blocks, so that logits are still in the processor's cache when they are
reduced. Finding the position of a maximum costs more than the maximum itself: it is done at the end, in one
block only.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.nn.base import BestWords, given_log_probs, join_best_words

_ROWS = 128  # rows and
_ENTRIES = 1024  # vocabulary entries that are computed at a time: half a megabyte
_PART = 8  # entries per part of a block; those of the winning part are computed twice


class Block(NamedTuple):
    start: int  # first entry
    end: int  # last entry + 1
    part: int  # entries per part


class OutputTable:
    """The output matrix, cut into blocks."""

    def __init__(self, table: Tensor, bias: Tensor | None = None) -> None:
        """table: (width, vocabulary); bias: (vocabulary,)."""
        self.blocks = [block.contiguous() for block in torch.split(table, _ENTRIES, dim=1)]
        self.biases = [None] * len(self.blocks) if bias is None else torch.split(bias, _ENTRIES)
        self.size = table.shape[1]

    def best(self, hidden: Tensor) -> BestWords:
        """Softmax over the whole vocabulary, argmax over words only. hidden: (rows, width)."""
        return join_best_words([self._best(rows) for rows in torch.split(hidden, _ROWS)])

    def _best(self, hidden: Tensor) -> BestWords:
        logits = hidden.new_empty(len(hidden), self.size)
        reduction = Reduction(logits)
        for block, bias, part in zip(self.blocks, self.biases, reduction.parts, strict=True):
            torch.mm(hidden, block, out=part)
            reduction.add(part if bias is None else part.add_(bias))
        return reduction.result()


def best_among(hidden: Tensor, table: Tensor, entries: Tensor, bias: Tensor | None = None) -> BestWords:
    """The best of a few words, softmax over these words only.

    table: (vocabulary, width); entries: (n,) ids; bias: (vocabulary,).
    """
    logits = hidden @ table.index_select(0, entries).T
    logits = logits if bias is None else logits + bias[entries]
    best, places = logits.max(dim=1)
    return BestWords(entries[places], best - logits.logsumexp(dim=1))


def given_words(hidden: Tensor, table: Tensor, ids: Tensor, bias: Tensor | None = None) -> Tensor:
    """log P of one given word per row, softmax over the whole vocabulary.

    table: (vocabulary, width); ids: (rows,); bias: (vocabulary,).
    """
    chunks = []
    for rows, words in zip(torch.split(hidden, _ROWS), torch.split(ids, _ROWS), strict=True):
        logits = rows @ table.T
        chunks.append(given_log_probs(logits if bias is None else logits + bias, words))
    return torch.cat(chunks)


class ReducedLogits(NamedTuple):
    """What a runtime that keeps no logits returns of them."""

    tops: list[Tensor]  # (rows, parts) the largest logit of each part of words, one tensor per share
    marks: Tensor  # (rows, blocks) the largest logit of each block
    sums: Tensor  # (rows, blocks) sum of exp(logit - mark)
    scale: Tensor | None  # (rows, 1) tops and marks must still be multiplied by this; None: by 1


class Blocks:
    """A vocabulary in blocks, and these in small parts, for a runtime that keeps no logits.

    The runtime returns the largest logit of each part. The entries of a part are a fixed distance apart, so
    that the maxima of neighbouring parts are computed side by side. Which entry of the part it is, is found
    by computing the few logits of that part again.
    """

    def __init__(self, table: Tensor, bias: Tensor | None = None) -> None:
        """table: (vocabulary, width), the output matrix; bias: (vocabulary,)."""
        vocabulary = len(table)
        whole = NUM_SPECIAL + (vocabulary - NUM_SPECIAL) // _PART * _PART
        starts = range(NUM_SPECIAL, whole, _ENTRIES)
        words = [Block(start, min(start + _ENTRIES, whole), _PART) for start in starts]
        rest = [Block(whole, vocabulary, vocabulary - whole)] if whole < vocabulary else []
        self.special = Block(0, NUM_SPECIAL, NUM_SPECIAL)
        self.words = [*words, *rest]
        self.table = table
        self.bias = bias
        self.strides = torch.tensor([(end - start) // part for start, end, part in self.words])
        """(blocks,) parts of each block; this is also the distance between the entries of a part."""
        self.first_parts = self.strides.cumsum(0) - self.strides
        self.starts = torch.tensor([block.start for block in self.words])

    def shares(self, number: int) -> list[list[Block]]:
        """The blocks of each of so many threads; special tokens go with the first words."""
        number = max(1, min(number, len(self.words)))
        ends = [len(self.words) * place // number for place in range(number + 1)]
        shares = [self.words[start:end] for start, end in pairwise(ends)]
        return [[self.special, *shares[0]], *shares[1:]]

    def best(self, hidden: Tensor, logits: ReducedLogits) -> BestWords:
        """hidden: (rows, width)."""
        scale = 1.0 if logits.scale is None else logits.scale
        total = (logits.marks * scale + logits.sums.log()).logsumexp(dim=1, keepdim=True)
        top, block = logits.marks[:, 1:].max(dim=1, keepdim=True)  # without special tokens
        part = self._tops_of(block, logits.tops).argmax(dim=1, keepdim=True)
        places = self.starts[block] + part + self.strides[block] * torch.arange(_PART)
        places = places.clamp_(max=len(self.table) - 1)
        entries = self.table.index_select(0, places.flatten()).view(*places.shape, -1)
        again = torch.bmm(hidden[:, None], entries.transpose(1, 2))[:, 0]
        again = again if self.bias is None else again + self.bias[places]
        ids = places.gather(1, again.argmax(dim=1, keepdim=True))
        return BestWords(ids[:, 0], (top * scale - total)[:, 0])

    def _tops_of(self, block: Tensor, shares: list[Tensor]) -> Tensor:
        """The tops of one block per row. block: (rows, 1). Shares are large, so they are not concatenated."""
        last = int(self.strides.sum()) - 1
        places = (self.first_parts[block] + torch.arange(int(self.strides.max()))).clamp_(max=last)
        tops = shares[0].gather(1, places.clamp(max=shares[0].shape[1] - 1))
        before = 0
        for previous, share in pairwise(shares):
            before += previous.shape[1]
            here = share.gather(1, (places - before).clamp_(0, share.shape[1] - 1))
            tops = torch.where(places < before, tops, here)
        return tops


class Reduction:
    """Maxima and sums of exponentials of logits (rows, vocabulary), one block at a time."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits
        self.parts = torch.split(logits, _ENTRIES, dim=1)
        self.scratch = torch.empty(len(logits), self.parts[0].shape[1], dtype=logits.dtype)
        self.tops: list[Tensor] = []
        self.sums: list[Tensor] = []

    def add(self, part: Tensor) -> None:
        """part: (rows, entries), just computed."""
        top = part.amax(dim=1, keepdim=True)
        difference = torch.sub(part, top, out=self.scratch[:, : part.shape[1]])
        self.tops.append(top)
        self.sums.append(difference.exp_().sum(dim=1, keepdim=True))

    def result(self) -> BestWords:
        total = (torch.cat(self.tops, dim=1) + torch.cat(self.sums, dim=1).log_()).logsumexp(dim=1)
        self.parts[0][:, :NUM_SPECIAL] = -torch.inf  # never produced
        self.tops[0] = self.parts[0].amax(dim=1, keepdim=True)
        best, winner = torch.cat(self.tops, dim=1).max(dim=1, keepdim=True)  # ties: the first block
        places = winner * _ENTRIES + torch.arange(self.scratch.shape[1])
        within = self.logits.gather(1, places.clamp_(max=self.logits.shape[1] - 1)).argmax(dim=1)
        return BestWords(winner[:, 0] * _ENTRIES + within, best[:, 0] - total)
