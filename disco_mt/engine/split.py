"""Several threads, each with its own rows.

Rows do not depend on each other, so that a thread can take its share of them through all layers and the
vocabulary. Threads meet once a pass; if they shared each product instead, they would meet a hundred times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor

from disco_mt.engine.runtime import Rows, Runtime, Source
from disco_mt.models.base import BestWords

_FEWEST = 4  # rows that are worth a thread

T = TypeVar("T")


class SplitRuntime:
    """A runtime whose rows are computed by so many threads."""

    def __init__(self, inner: Runtime, threads: int) -> None:
        self.inner, self.threads = inner, threads
        self.dtype, self.longest_target = inner.dtype, inner.longest_target
        self.pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))

    def encode(self, source: Tensor) -> Source:
        """See Runtime. Its positions see each other: there is nothing to split."""
        return self.inner.encode(source)

    def put_keys(self, tokens: Tensor, places: Tensor, into: Tensor, spots: Tensor) -> None:
        """See Runtime."""
        self._each(
            len(tokens), lambda part: self.inner.put_keys(tokens[part], places[part], into, spots[part])
        )

    def first_pass(self, rows: Rows, anchors: Tensor, source: Source) -> BestWords:
        """See Runtime."""

        def best(part: slice) -> BestWords:
            share = _Share(rows, part)
            return self.inner.first_pass(share.rows, anchors[:, share.candidates], share.of(source))

        return _joined(self._each(len(rows.places), best))

    def predict(self, rows: Rows, visible: Tensor, keys: Tensor, source: Source) -> BestWords:
        """See Runtime."""

        def best(part: slice) -> BestWords:
            share = _Share(rows, part)
            return self.inner.predict(share.rows, visible[part], keys[:, share.candidates], share.of(source))

        return _joined(self._each(len(rows.places), best))

    def _each(self, number: int, do: Callable[[slice], T]) -> list[T]:
        """Do it with equal parts of so many rows, at the same time."""
        parts = max(1, min(self.threads, number // _FEWEST))
        ends = [number * place // parts for place in range(parts + 1)]

        def alone(part: slice) -> T:
            with torch.inference_mode():  # each thread has its own mode
                return do(part)

        slices = [slice(start, end) for start, end in pairwise(ends)]
        others = [self.pool.submit(alone, part) for part in slices[1:]]
        return [alone(slices[0]), *(other.result() for other in others)]


class _Share:
    """Rows of one thread, with the candidates and sentences that they need, counted from 0."""

    def __init__(self, rows: Rows, part: slice) -> None:
        places, candidates, sentences = rows.places[part], rows.candidates[part], rows.sentences[part]
        self.candidates, self.sentences = _range(candidates), _range(sentences)
        self.rows = replace(
            rows,
            places=places,
            candidates=candidates - self.candidates.start,
            sentences=sentences - self.sentences.start,
        )

    def of(self, source: Source) -> Source:
        """What it needs of the encoded sentences."""
        chosen = self.sentences
        return Source(source.keys[:, chosen], source.visible[chosen], source.length_log_probs[chosen])


def _range(members: Tensor) -> slice:
    """From the first to the last of rising numbers."""
    return slice(int(members[0]), int(members[-1]) + 1)


def _joined(parts: Sequence[BestWords]) -> BestWords:
    if len(parts) == 1:
        return parts[0]
    return BestWords(torch.cat([each.ids for each in parts]), torch.cat([each.log_probs for each in parts]))
