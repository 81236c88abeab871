"""One queue, one worker: sentences of any requests that may be decoded together are.

A sentence waits by rank: the number of its request plus its place in it. So a long text steps back behind
requests that came a little later, and nothing waits for ever. A batch is the first in rank and those nearest
to it in length.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodingOptions
from disco_mt.decoding.results import OnPass, Pass, Translation
from disco_mt.serve.decoder import Batch, Sentence
from disco_mt.serve.http_errors import Refusal, busy, describe, draining, failed
from disco_mt.serve.limits import Limits
from disco_mt.serve.metrics import Metrics
from disco_mt.serve.models import ServedModel
from disco_mt.serve.process import ModelFailed

log = logging.getLogger("disco.serve")


@dataclass(eq=False)
class Job:
    """The sentences of one request. `done` has their translations, or the refusal."""

    model: ServedModel
    options: DecodingOptions
    sentences: Sequence[Sentence]
    trace: bool = False
    on_pass: Callable[[int, Pass[str]], None] | None = None  # told the sentence's place, and the pass
    done: Future[list[Translation]] = field(default_factory=Future)
    found: dict[int, Translation] = field(default_factory=dict)

    @property
    def alone(self) -> bool:
        """Passes are watched one sentence at a time."""
        return self.trace or self.on_pass is not None

    @cached_property
    def characters(self) -> int:
        """The size of it all; an empty sentence is work, too."""
        return sum(len(sentence.text) + 1 for sentence in self.sentences)

    def give(self, place: int, found: Translation) -> None:
        """One sentence is finished; after the last, the job is."""
        self.found[place] = found
        if len(self.found) == len(self.sentences):
            with suppress(InvalidStateError):  # cancelled meanwhile
                self.done.set_result([self.found[n] for n in range(len(self.sentences))])

    def refuse(self, refusal: Refusal) -> None:
        """There will be no answer."""
        with suppress(InvalidStateError):
            self.done.set_exception(refusal)


@dataclass(frozen=True)
class Waiting:
    """A sentence in the queue."""

    rank: int
    job: Job
    place: int

    @property
    def sentence(self) -> Sentence:
        """What is to be translated."""
        return self.job.sentences[self.place]

    @property
    def watcher(self) -> OnPass[str] | None:
        """Who is told of every pass."""
        tell, place = self.job.on_pass, self.place
        return None if tell is None else lambda now: tell(place, now)

    def goes_with(self, other: Waiting) -> bool:
        """May both be decoded in one batch?"""
        one, two = self.job, other.job
        return one.model is two.model and one.options == two.options and not one.alone and not two.alone


class Worker:
    """A thread that decodes; `submit` may be called from any other."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits, self.metrics = limits, metrics
        self._waiting: list[Waiting] = []
        self._jobs: set[Job] = set()  # accepted and unfinished
        self._number = 0
        self._speed = 1_000.0  # characters a second, smoothed
        self._changed = threading.Condition()
        self._draining = self._ended = False
        self._thread = threading.Thread(target=self._run, name="disco-worker", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job or raise the Refusal that says why not."""
        if not job.sentences:
            job.done.set_result([])
            return
        with self._changed:
            if self._draining:
                raise draining()
            self._check_room(job)
            self._number += 1
            self._jobs.add(job)
            self._waiting += [Waiting(self._number + n, job, n) for n in range(len(job.sentences))]
            self._changed.notify_all()
        job.done.add_done_callback(lambda _: self._forget(job))

    def _check_room(self, job: Job) -> None:
        characters = sum(other.characters for other in self._jobs)
        full = characters + job.characters > self.limits.queue_characters and self._jobs
        if full or len(self._jobs) >= self.limits.queue:
            raise busy(characters / self._speed)

    def _forget(self, job: Job) -> None:
        """A job is finished, refused or cancelled: nothing of it waits any longer."""
        with self._changed:
            self._jobs.discard(job)
            self._waiting = [each for each in self._waiting if each.job is not job]
            self._changed.notify_all()

    @property
    def queued(self) -> int:
        """Requests accepted and not yet answered."""
        return len(self._jobs)

    @property
    def is_draining(self) -> bool:
        """Is nothing accepted any longer?"""
        return self._draining

    @property
    def is_alive(self) -> bool:
        """Does the thread run?"""
        return self._thread.is_alive()

    def drain(self) -> None:
        """Accept nothing more; what was accepted is finished."""
        with self._changed:
            self._draining = True

    def stop(self) -> None:
        """End the thread; jobs that are left are refused."""
        with self._changed:
            self._draining = self._ended = True
            left = list(self._jobs)
            self._changed.notify_all()
        for job in left:
            job.refuse(draining())
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while True:
            batch = self._next_batch()
            if not batch:
                return
            model = batch[0].job.model
            started, rows = time.perf_counter(), model.decoder.rows
            self._translate(batch)
            taken = time.perf_counter() - started
            speed = sum(len(each.sentence.text) + 1 for each in batch) / max(taken, 1e-6)
            self._speed += 0.1 * (speed - self._speed)
            self.metrics.batch(len(batch), taken, model.decoder.rows - rows)

    def _next_batch(self) -> list[Waiting]:
        """Wait for work and take it; empty when the worker has ended."""
        with self._changed:
            while not self._waiting and not self._ended:
                self._changed.wait()
                if self._waiting and len(self._jobs) == 1 and self.limits.batch_wait:
                    self._changed.wait_for(lambda: self._ended, self.limits.batch_wait)
            if self._ended:
                return []
            batch = choose(self._waiting, self.limits.batch_characters)
            taken = {id(each) for each in batch}
            self._waiting = [each for each in self._waiting if id(each) not in taken]
            return batch

    def _translate(self, batch: list[Waiting]) -> None:
        """Decode a batch; if that fails, each alone, so that nobody suffers from another's sentence."""
        first = batch[0]
        job = first.job
        together = Batch([each.sentence for each in batch], job.options, job.trace)
        try:
            found = job.model.translate(together, first.watcher)
        except Exception as error:
            if len(batch) == 1:
                job.refuse(self._refusal(error))
            else:
                for each in batch:
                    if not each.job.done.done():
                        self._translate([each])
            return
        for each, translation in zip(batch, found, strict=True):
            self._deliver(each, translation)

    def _deliver(self, waiting: Waiting, found: Translation) -> None:
        if found.refused:
            waiting.job.refuse(Refusal(422, found.refused))
            return
        self.metrics.sentence(found.steps, len(found.tokens))
        waiting.job.give(waiting.place, found)

    def _refusal(self, error: Exception) -> Refusal:
        if isinstance(error, Refusal):  # by who watches the passes
            return error
        if isinstance(error, UserError):
            return Refusal(422, str(error))
        self.metrics.failures.inc()
        log.error("a model failed: %s", error if isinstance(error, ModelFailed) else describe(error))
        return failed()


def choose(waiting: Sequence[Waiting], characters: int) -> list[Waiting]:
    """The first in rank and those nearest to it in length, as many as fit `characters` when padded."""
    first = min(waiting, key=lambda each: each.rank)
    size = len(first.sentence.text)
    others = [each for each in waiting if each is not first and each.goes_with(first)]
    batch, longest = [first], size + 1
    for each in sorted(others, key=lambda each: (abs(len(each.sentence.text) - size), each.rank)):
        longest = max(longest, len(each.sentence.text) + 1)
        if longest * (len(batch) + 1) > characters:
            break
        batch.append(each)
    return batch
