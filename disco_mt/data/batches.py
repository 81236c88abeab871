"""Batches by token budget: which pairs go together (a plan), and the pairs as tensors."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from disco_mt.batch import Batch
from disco_mt.data.dataset import Ids, Lengths, Split
from disco_mt.errors import UserError
from disco_mt.special import EOS, PAD

Indices = NDArray[np.int64]


def plan_epoch(
    source_lengths: Lengths, target_lengths: Lengths, max_tokens: int, seed: int, epoch: int
) -> list[Indices]:
    """The batches of one epoch, as indices of pairs: every pair once, pairs of like lengths together.

    In a batch, (number of pairs) x (longest sentence of either side, with EOS) is at most `max_tokens`.
    The same seed and epoch give the same plan, so training goes on in the middle of an epoch by skipping
    the batches it has had.
    """
    _check_budget(source_lengths, target_lengths, max_tokens)
    random = np.random.Generator(np.random.PCG64([seed, epoch]))
    order = random.permutation(len(source_lengths))
    # A stable sort, so that pairs of the same lengths stay mixed, anew in each epoch.
    order = order[_by_length(source_lengths[order], target_lengths[order])]
    widths = np.maximum(source_lengths[order], target_lengths[order]) + 1  # with EOS
    batches = np.split(order, _cuts(widths, max_tokens)) if len(order) else []
    return [batches[index] for index in random.permutation(len(batches))]


def collate(split: Split, indices: Indices) -> Batch:
    """The pairs as tensors: EOS added, padded on the right."""
    return Batch(
        sentence=torch.from_numpy(np.asarray(indices, dtype=np.int64)),
        source=_pad([split.source[index] for index in indices]),
        target=_pad([split.target[index] for index in indices]),
    )


def _by_length(source_lengths: Lengths, target_lengths: Lengths) -> Indices:
    """Stable order by the longer side, and among equals by how much longer one side is than the other.

    The inner order runs upwards and downwards in turn: where one length meets the next, the differences meet
    too, and a batch that spans the two is padded little.
    """
    longer = np.maximum(source_lengths, target_lengths)
    difference = source_lengths - target_lengths
    return np.lexsort((np.where(longer % 2 == 0, difference, -difference), longer))


def _cuts(widths: Lengths, max_tokens: int) -> list[int]:
    """Where to cut the pairs, ordered by width, so that each batch takes as many as the budget allows."""
    cuts: list[int] = []
    start = 0
    while True:
        # No batch can hold more pairs than its first and least wide one allows; its last is the widest.
        window = widths[start : start + max_tokens // int(widths[start])].astype(np.int64)
        cells = window * np.arange(1, len(window) + 1)
        start += int(np.searchsorted(cells, max_tokens, side="right"))
        if start >= len(widths):
            return cuts
        cuts.append(start)


def _check_budget(source_lengths: Lengths, target_lengths: Lengths, max_tokens: int) -> None:
    longest = 1 + max(source_lengths.max(initial=0), target_lengths.max(initial=0))
    if longest > max_tokens:
        raise UserError(
            f"max_tokens must be at least the longest sentence, which has {longest} tokens with its end, "
            f"got {max_tokens}; raise max_tokens, or prepare the data with a smaller max_length"
        )


def _pad(sentences: list[Ids]) -> torch.Tensor:
    """(batch, longest + 1) int64."""
    padded = np.full((len(sentences), 1 + max(map(len, sentences), default=0)), PAD, dtype=np.int64)
    for row, ids in zip(padded, sentences, strict=True):
        row[: len(ids)] = ids
        row[len(ids)] = EOS
    return torch.from_numpy(padded)
