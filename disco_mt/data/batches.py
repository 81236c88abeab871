"""Batches by token budget: a plan of the pairs of each batch, and the pairs as tensors."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from disco_mt.core.batch import Batch
from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import EOS, PAD
from disco_mt.data.dataset import Lengths, Side, Split

Indices = NDArray[np.int32]  # of pairs


def plan_epoch(
    source_lengths: Lengths, target_lengths: Lengths, max_tokens: int, seed: int, epoch: int
) -> list[Indices]:
    """The batches of one epoch, as indices of pairs: every pair once, pairs of similar lengths together.

    In a batch, (number of pairs) x (longest sentence of either side, with EOS) is at most `max_tokens`.
    The same seed and epoch give the same plan, so training can resume in the middle of an epoch by skipping
    batches.
    """
    _check_budget(source_lengths, target_lengths, max_tokens)
    random = np.random.Generator(np.random.PCG64([seed, epoch]))
    order = np.arange(len(source_lengths), dtype=np.int32)
    random.shuffle(order)
    # A stable sort keeps pairs of the same lengths shuffled.
    order = order[np.argsort(_key(source_lengths, target_lengths)[order], kind="stable")]
    cuts = _cuts(_counts(source_lengths, target_lengths), max_tokens)
    bounds = list(pairwise([0, *cuts, len(order)] if len(order) else []))
    return [order[slice(*bounds[number])] for number in random.permutation(len(bounds))]


def collate(split: Split, indices: Indices) -> Batch:
    """The pairs as tensors: EOS added, padded on the right."""
    return Batch(
        sentence=torch.from_numpy(np.asarray(indices, dtype=np.int64)),
        source=_pad(split.source, indices),
        target=_pad(split.target, indices),
    )


def _key(source_lengths: Lengths, target_lengths: Lengths) -> NDArray[Any]:
    """Sorts by the longer side, then by the difference between the sides.

    The order of the differences alternates between ascending and descending, so that a batch of two lengths
    has similar differences and little padding.

    If the longer side has L tokens, the difference is one of -L .. L, and L^2 + L + difference is unique. Up
    to L = 255 it fits into 16 bits, which numpy sorts quickly by radix.
    """
    longer = np.maximum(source_lengths, target_lengths)
    short = longer.max(initial=0) < 256
    longer = longer if short else longer.astype(np.int64)  # room for its square
    key: NDArray[Any] = source_lengths - target_lengths
    np.negative(key, out=key, where=longer % 2 == 1)
    key = key + longer * (longer + 1)
    return key.astype(np.uint16) if short else key


def _counts(source_lengths: Lengths, target_lengths: Lengths) -> list[int]:
    """The number of pairs with 0, 1, 2, ... tokens on their longer side, without EOS."""
    counts: list[int] = np.bincount(np.maximum(source_lengths, target_lengths)).tolist()
    return counts


def _cuts(counts: list[int], max_tokens: int) -> list[int]:
    """Where to cut the pairs, sorted by length, so that each batch uses the budget."""
    cuts: list[int] = []
    start = end = 0  # of the current batch; of the pairs up to a length
    for length, count in enumerate(counts):
        end += count
        most = max_tokens // (length + 1)  # pairs that a batch can have if its longest sentence is this long
        if count and end - start > most:
            # If there are more than `most` shorter pairs already, they are a batch of their own.
            first = max(start + most, end - count)
            cuts.extend(range(first, end, most))
            start = cuts[-1]
    return cuts


def _check_budget(source_lengths: Lengths, target_lengths: Lengths, max_tokens: int) -> None:
    longest = 1 + max(source_lengths.max(initial=0), target_lengths.max(initial=0))
    if longest > max_tokens:
        raise UserError(
            f"max_tokens must be at least the longest sentence, which has {longest} tokens with its end, "
            f"got {max_tokens}; raise max_tokens, or prepare the data with a smaller max_length"
        )


def _pad(side: Side, indices: Indices) -> torch.Tensor:
    """(batch, longest + 1) int64."""
    starts, lengths = side.offsets[indices], side.lengths[indices]
    columns = np.arange(1 + lengths.max(initial=0))
    words = columns < lengths[:, None]
    padded = np.full(words.shape, PAD, dtype=np.int64)
    padded[words] = side.ids[(starts[:, None] + columns)[words]]
    padded[np.arange(len(lengths)), lengths] = EOS
    side.release()
    return torch.from_numpy(padded)
