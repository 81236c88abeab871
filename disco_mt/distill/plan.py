"""Which sentences a teacher translates, in which order, cut into which shards: a function of the data alone.

Sentences of like length stand together, so that batches are padded little, and equal sentences are one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from disco_mt.data.dataset import Side

Indices = NDArray[np.int64]

EMPTY, TOO_LONG = -1, -2  # instead of a place: these sources are not translated


@dataclass(frozen=True)
class Plan:
    """Shards are independent: whoever has the data and the teacher can translate any of them at any time."""

    first: Indices  # (sentences,) the first pair that has each; by length, equal lengths as they come
    place: Indices  # (pairs,) where its source stands in `first`, or EMPTY, or TOO_LONG
    shards: tuple[range, ...]  # places in `first`

    def sentences(self, number: int) -> Indices:
        """The pairs whose sources are the sentences of a shard."""
        shard = self.shards[number]
        return self.first[shard.start : shard.stop]


def plan_shards(source: Side, longest: int, shard_size: int) -> Plan:
    """Shards of `shard_size` different sentences with at most `longest` tokens each."""
    place = np.full(len(source.lengths), EMPTY, dtype=np.int64)
    place[source.lengths > longest] = TOO_LONG
    firsts: list[Indices] = []
    sentences = 0
    for pairs in _by_length(source):
        if 0 < source.lengths[pairs[0]] <= longest:
            first, number = _different(source, pairs)
            place[pairs] = sentences + number
            firsts.append(first)
            sentences += len(first)
    starts = range(0, sentences, shard_size)
    shards = tuple(range(start, min(start + shard_size, sentences)) for start in starts)
    return Plan(np.concatenate([np.empty(0, dtype=np.int64), *firsts]), place, shards)


def _by_length(source: Side) -> list[Indices]:
    """The pairs whose sources have the same length, the shortest first, each group in corpus order."""
    order = np.argsort(source.lengths, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(source.lengths[order])) + 1) if len(order) else []


def _different(source: Side, pairs: Indices) -> tuple[Indices, Indices]:
    """Of pairs with sources of one length: those with a new one, and for each pair the number of its own."""
    starts, length = source.offsets[pairs], int(source.lengths[pairs[0]])
    rows = np.empty((len(pairs), length), dtype=source.ids.dtype)
    for column in range(length):  # a matrix of all indices would be four times the size of the sentences
        rows[:, column] = source.ids[starts + column]
    source.release()
    whole = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize)))[:, 0]  # a row is one value
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    as_they_come = np.argsort(first)
    number = np.empty_like(as_they_come)
    number[as_they_come] = np.arange(len(first))
    return pairs[first[as_they_come]], number[which.reshape(-1)]
