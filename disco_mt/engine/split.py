"""Several threads, each with its own rows, or its own part of the vocabulary.

Rows do not depend on each other, so that a thread can take its share of them through all layers. Threads meet
before and after the vocabulary, whose large matrix each reads but a part of; if they shared every product,
they would meet a hundred times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor

from disco_mt.engine.runtime import Rows, Runtime, Source, one_after_another
from disco_mt.nn.base import BestWords

_FEWEST = 4  # rows that are worth a thread, and
_FEWEST_KEYS = 32  # tokens, whose keys take less

T = TypeVar("T")


class SplitRuntime:
    """A runtime whose rows are computed by so many threads."""

    def __init__(self, inner: Runtime, threads: int) -> None:
        self.inner, self.threads = inner, threads
        self.dtype, self.longest_target, self.start = inner.dtype, inner.longest_target, inner.start
        self.pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))

    def encode(self, source: Tensor) -> Source:
        """See Runtime. Its positions see each other: there is nothing to split here."""
        return self.inner.encode(source)

    def put_keys(self, tokens: Tensor, candidates: Tensor, slots: Tensor, into: Tensor) -> None:
        """See Runtime."""
        self._each(
            len(tokens),
            lambda part: self.inner.put_keys(tokens[part], candidates[part], slots[part], into),
            _FEWEST_KEYS,
        )

    def first_pass(self, rows: Rows, anchors: Tensor, source: Source) -> Tensor:
        """See Runtime."""

        def hidden(part: slice) -> Tensor:
            share = _Share(rows, part)
            return self.inner.first_pass(share.rows, anchors[:, share.candidates], share.of(source))

        return torch.cat(self._each(len(rows.places), hidden))

    def later_pass(self, rows: Rows, visible: Tensor, keys: Tensor, source: Source) -> Tensor:
        """See Runtime."""

        def hidden(part: slice) -> Tensor:
            share = _Share(rows, part)
            return self.inner.later_pass(
                share.rows, visible[part], keys[:, share.candidates], share.of(source)
            )

        return torch.cat(self._each(len(rows.places), hidden))

    def best_words(
        self, hidden: Tensor, entries: Tensor | None, together: Callable[..., list[Any]] = one_after_another
    ) -> BestWords:
        """See Runtime."""
        return self.inner.best_words(hidden, entries, self._together)

    def word_log_probs(self, hidden: Tensor, ids: Tensor) -> Tensor:
        """See Runtime."""
        parts = self._each(len(ids), lambda part: self.inner.word_log_probs(hidden[part], ids[part]))
        return torch.cat(parts)

    def _each(self, number: int, do: Callable[[slice], T], fewest: int = _FEWEST) -> list[T]:
        """Do it with equal parts of so many rows, at the same time."""
        parts = max(1, min(self.threads, number // fewest))
        ends = [number * place // parts for place in range(parts + 1)]
        return self._together([partial(do, slice(start, end)) for start, end in pairwise(ends)])

    def _together(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """Their results; this thread does the first."""
        others = [self.pool.submit(_inferring, job) for job in jobs[1:]]
        return [jobs[0](), *(other.result() for other in others)]


def _inferring(job: Callable[[], T]) -> T:
    with torch.inference_mode():  # each thread has its own mode
        return job()


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
