"""One queue, one worker: sentences of different requests are decoded together where that is possible.

A sentence waits by rank: the number of its request plus its position in it. So a long text steps back behind
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
from disco_mt.pins.parse import Pin
from disco_mt.serve.http_errors import HttpError, busy, describe, draining, failed
from disco_mt.serve.limits import Limits
from disco_mt.serve.models import ServedModel
from disco_mt.serve.monitoring import Metrics
from disco_mt.serve.process import Batch, ModelFailed, Sentence

log = logging.getLogger("disco.serve")

Lines = list[list[str]]  # the sentences of each line of a text


@dataclass(eq=False)
class Job:
    """The sentences of one request. `done` has their translations, or the error."""

    model: ServedModel
    options: DecodingOptions
    sentences: Sequence[Sentence]
    trace: bool = False
    texts: Sequence[Lines] = ()  # the texts that the sentences come from
    on_pass: Callable[[int, Pass[str]], None] | None = None  # (index of the sentence, pass)
    done: Future[list[Translation]] = field(default_factory=Future)
    finished: dict[int, Translation] = field(default_factory=dict)

    @staticmethod
    def of(
        model: ServedModel,
        options: DecodingOptions,
        texts: Sequence[str],
        pins: Sequence[Sequence[Pin]] = (),
        trace: bool = False,
    ) -> Job:
        """Split texts into sentences. pins: one list per text; `Pin.sentence` counts its sentences."""
        lines = [model.lines(text) for text in texts]
        sentences: list[Sentence] = []
        for text, its in zip(lines, pins or [()] * len(lines), strict=True):
            flat = [sentence for line in text for sentence in line]
            for pin in its:
                if pin.sentence >= len(flat):
                    raise UserError(f"a pin is for sentence {pin.sentence}, but the text has {len(flat)}")
            for number, sentence in enumerate(flat):
                here = tuple(Pin(pin.text, pin.at) for pin in its if pin.sentence == number)
                sentences.append(Sentence(sentence, here))
        return Job(model, options, sentences, trace, lines)

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """For every sentence: the index of its text, and its own index in it."""
        return [(n, m) for n, lines in enumerate(self.texts) for m in range(sum(map(len, lines)))]

    @property
    def alone(self) -> bool:
        """Passes are watched one sentence at a time."""
        return self.trace or self.on_pass is not None

    @cached_property
    def characters(self) -> int:
        """The size of all sentences; an empty one is work, too."""
        return sum(len(sentence.text) + 1 for sentence in self.sentences)

    def finish(self, index: int, translation: Translation) -> None:
        self.finished[index] = translation
        if len(self.finished) == len(self.sentences):
            with suppress(InvalidStateError):  # cancelled meanwhile
                self.done.set_result([self.finished[n] for n in range(len(self.sentences))])

    def fail(self, error: HttpError) -> None:
        with suppress(InvalidStateError):
            self.done.set_exception(error)


@dataclass(frozen=True)
class Waiting:
    rank: int
    job: Job
    index: int

    @property
    def sentence(self) -> Sentence:
        return self.job.sentences[self.index]

    @property
    def on_pass(self) -> OnPass[str] | None:
        report, index = self.job.on_pass, self.index
        return None if report is None else lambda now: report(index, now)

    def goes_with(self, other: Waiting) -> bool:
        one, two = self.job, other.job
        return one.model is two.model and one.options == two.options and not one.alone and not two.alone


class Worker:
    """A thread that decodes; `submit` may be called from any other."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits = limits
        self.metrics = metrics
        self._waiting: list[Waiting] = []
        self._jobs: set[Job] = set()  # accepted and unfinished
        self._number = 0
        self._speed = 1_000.0  # characters per second, smoothed
        self._changed = threading.Condition()
        self._draining = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="disco-worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job, or raise the HttpError that says why not."""
        if not job.sentences:
            job.done.set_result([])
            return
        with self._changed:
            if self._draining:
                raise draining()
            characters = sum(other.characters for other in self._jobs)
            full = characters + job.characters > self.limits.queue_characters and self._jobs
            if full or len(self._jobs) >= self.limits.queue:
                raise busy(characters / self._speed)
            self._number += 1
            self._jobs.add(job)
            self._waiting += [Waiting(self._number + n, job, n) for n in range(len(job.sentences))]
            self._changed.notify_all()
        job.done.add_done_callback(lambda _: self._forget(job))

    def _forget(self, job: Job) -> None:
        """A job is finished, failed or cancelled: nothing of it waits any longer."""
        with self._changed:
            self._jobs.discard(job)
            self._waiting = [waiting for waiting in self._waiting if waiting.job is not job]
            self._changed.notify_all()

    @property
    def queued(self) -> int:
        return len(self._jobs)

    @property
    def is_draining(self) -> bool:
        return self._draining

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def drain(self) -> None:
        with self._changed:
            self._draining = True

    def stop(self) -> None:
        with self._changed:
            self._draining = True
            self._ended = True
            left = list(self._jobs)
            self._changed.notify_all()
        for job in left:
            job.fail(draining())
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while batch := self._next_batch():
            model = batch[0].job.model
            started, rows = time.perf_counter(), model.decoder.rows
            self._translate(batch)
            seconds = time.perf_counter() - started
            speed = sum(len(waiting.sentence.text) + 1 for waiting in batch) / max(seconds, 1e-6)
            self._speed += 0.1 * (speed - self._speed)
            self.metrics.rows.inc(model.decoder.rows - rows)
            self.metrics.batches.observe(len(batch))
            self.metrics.batch_seconds.observe(seconds)

    def _next_batch(self) -> list[Waiting]:
        """Wait for work and take it; empty when the worker has ended."""
        with self._changed:
            while not self._waiting and not self._ended:
                self._changed.wait()
                if self._waiting and len(self._jobs) == 1 and self.limits.batch_wait:
                    self._changed.wait_for(lambda: self._ended, self.limits.batch_wait)
            if self._ended:
                return []
            batch = choose_batch(self._waiting, self.limits.batch_characters)
            taken = {id(waiting) for waiting in batch}
            self._waiting = [waiting for waiting in self._waiting if id(waiting) not in taken]
            return batch

    def _translate(self, batch: list[Waiting]) -> None:
        """Decode a batch; if that fails, each sentence alone, so that a fault costs one request only."""
        first = batch[0]
        job = first.job
        together = Batch([waiting.sentence for waiting in batch], job.options, job.trace)
        try:
            translations = job.model.translate(together, first.on_pass)
        except Exception as error:
            if len(batch) == 1:
                job.fail(self._http_error(error))
                return
            for waiting in batch:
                if not waiting.job.done.done():
                    self._translate([waiting])
            return
        for waiting, translation in zip(batch, translations, strict=True):
            if translation.refused:
                waiting.job.fail(HttpError(422, translation.refused))
                continue
            self.metrics.steps.observe(translation.steps)
            self.metrics.words.inc(len(translation.tokens))
            waiting.job.finish(waiting.index, translation)

    def _http_error(self, error: Exception) -> HttpError:
        if isinstance(error, HttpError):  # raised by whoever watches the passes
            return error
        if isinstance(error, UserError):
            return HttpError(422, str(error))
        self.metrics.failures.inc()
        log.error("a model failed: %s", error if isinstance(error, ModelFailed) else describe(error))
        return failed()


def choose_batch(queue: Sequence[Waiting], characters: int) -> list[Waiting]:
    """The first in rank and those nearest to it in length, as many as fit `characters` when padded."""
    first = min(queue, key=lambda waiting: waiting.rank)
    size = len(first.sentence.text)

    def distance(waiting: Waiting) -> tuple[int, int]:
        return abs(len(waiting.sentence.text) - size), waiting.rank

    batch, longest = [first], size + 1
    others = [waiting for waiting in queue if waiting is not first and waiting.goes_with(first)]
    for waiting in sorted(others, key=distance):
        longest = max(longest, len(waiting.sentence.text) + 1)
        if longest * (len(batch) + 1) > characters:
            break
        batch.append(waiting)
    return batch
