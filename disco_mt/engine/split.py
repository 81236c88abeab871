"""Several threads, each with its own rows or its own part of the vocabulary.

Rows do not depend on each other, so one thread can take its share of them through all layers. Threads only
synchronize before and after the output layer, where each reads a part of the large matrix. Sharing every
single product would take a hundred synchronizations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor

from disco_mt.engine.runtime import Rows, RunJobs, Runtime, Source, run_in_turn
from disco_mt.nn.base import BestWords

_LEAST_ROWS = 4  # per thread
_LEAST_KEYS = 32  # tokens per thread, where only keys are computed

T = TypeVar("T")


class SplitRuntime:
    """A runtime that divides the rows among threads."""

    def __init__(self, inner: Runtime, threads: int) -> None:
        self.inner = inner
        self.threads = threads
        self.dtype = inner.dtype
        self.longest_target = inner.longest_target
        self.start = inner.start
        self.pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))

    def encode(self, source: Tensor) -> Source:
        """Not divided: the positions of a source see each other."""
        return self.inner.encode(source)

    def put_keys(self, tokens: Tensor, candidates: Tensor, slots: Tensor, into: Tensor) -> None:
        self._map_parts(
            len(tokens),
            lambda part: self.inner.put_keys(tokens[part], candidates[part], slots[part], into),
            _LEAST_KEYS,
        )

    def first_pass(self, rows: Rows, anchors: Tensor, source: Source) -> Tensor:
        def hidden(part: slice) -> Tensor:
            share = _Share(rows, part)
            return self.inner.first_pass(share.rows, anchors[:, share.candidates], share.of(source))

        return torch.cat(self._map_parts(len(rows.places), hidden))

    def later_pass(self, rows: Rows, visible: Tensor, keys: Tensor, source: Source) -> Tensor:
        def hidden(part: slice) -> Tensor:
            share = _Share(rows, part)
            return self.inner.later_pass(
                share.rows, visible[part], keys[:, share.candidates], share.of(source)
            )

        return torch.cat(self._map_parts(len(rows.places), hidden))

    def best_words(
        self, hidden: Tensor, entries: Tensor | None, run_jobs: RunJobs = run_in_turn
    ) -> BestWords:
        return self.inner.best_words(hidden, entries, self._run_jobs)

    def word_log_probs(self, hidden: Tensor, ids: Tensor) -> Tensor:
        parts = self._map_parts(len(ids), lambda part: self.inner.word_log_probs(hidden[part], ids[part]))
        return torch.cat(parts)

    def _map_parts(self, number: int, function: Callable[[slice], T], least: int = _LEAST_ROWS) -> list[T]:
        """Call the function with equal parts of so many rows, at the same time."""
        parts = max(1, min(self.threads, number // least))
        ends = [number * place // parts for place in range(parts + 1)]
        return self._run_jobs([partial(function, slice(start, end)) for start, end in pairwise(ends)])

    def _run_jobs(self, jobs: Sequence[Callable[[], Any]]) -> list[Any]:
        """This thread runs the first job, the pool the others."""
        others = [self.pool.submit(_in_inference_mode, job) for job in jobs[1:]]
        return [jobs[0](), *(other.result() for other in others)]


def _in_inference_mode(job: Callable[[], T]) -> T:
    with torch.inference_mode():  # the mode is per thread
        return job()


class _Share:
    """Rows of one thread, with the candidates and sentences that they need, counted from 0."""

    def __init__(self, rows: Rows, part: slice) -> None:
        candidates = rows.candidates[part]
        sentences = rows.sentences[part]
        self.candidates = _range(candidates)
        self.sentences = _range(sentences)
        self.rows = Rows(
            rows.places[part], candidates - self.candidates.start, sentences - self.sentences.start
        )

    def of(self, source: Source) -> Source:
        """The part of the encoded sentences that it needs."""
        chosen = self.sentences
        return Source(source.keys[:, chosen], source.visible[chosen], source.length_log_probs[chosen])


def _range(members: Tensor) -> slice:
    """From the first to the last of ascending numbers."""
    return slice(int(members[0]), int(members[-1]) + 1)
