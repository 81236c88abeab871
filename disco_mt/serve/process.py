"""A model in a process of its own.

Python runs one thread at a time: in one process, reading requests would take a tenth from translating. And
if a model ends its process (memory, a broken kernel), the server goes on and starts it again.

Parent and child talk over a pipe. Parent: (batch, watched), or `STOP`. Child: ("pass", Pass) while it is
watched, then ("done", (translations, rows)), ("refused", reason) or ("failed", what and where).
"""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import OnPass, Pass, Translation
from disco_mt.engine.select import EngineOptions
from disco_mt.pins.parse import Pin
from disco_mt.serve.http_errors import describe
from disco_mt.serve.invariant import BatchInvariant
from disco_mt.translator import Translator

STOP = "stop"  # nobody waits for the sentence any longer
TRIM_EVERY = 20.0  # seconds; one trim costs about 0.2, since what was given back must be fetched again


class ModelFailed(Exception):  # noqa: N818 - as it reads
    pass


@dataclass(frozen=True)
class Sentence:
    text: str
    pins: tuple[Pin, ...] = ()


@dataclass(frozen=True)
class Batch:
    sentences: Sequence[Sentence]
    options: DecodingOptions
    trace: bool = False


@dataclass(frozen=True)
class LocalDecoder:
    translator: Translator

    @property
    def rows(self) -> int:
        """By the plain algorithms, and by an engine that counts."""
        work = getattr(self.translator.engine, "work", None)
        return self.translator.model.predicted + (0 if work is None else int(work.rows))

    def translate(self, batch: Batch, on_pass: OnPass[str] | None = None) -> list[Translation]:
        """One translation per sentence, each to the last bit as if it were alone."""
        pins = [sentence.pins for sentence in batch.sentences]
        request = DecodeRequest(
            pins=pins if any(pins) else None,
            trace=batch.trace,
            on_pass=on_pass,
            batch_tokens=1 << 30,  # what comes here together is decoded together
        )
        with BatchInvariant() if self.translator.device == "cpu" else nullcontext():
            return self.translator.translate(
                [sentence.text for sentence in batch.sentences],
                batch.options,
                request,
                long="refuse" if request.watched else "split",
            )

    def close(self) -> None:
        """Nothing to end: it goes with the process."""


class ProcessDecoder:
    """The parent's side; used by one thread. name, engine: for Translator.from_pretrained."""

    def __init__(self, name: str, engine: EngineOptions) -> None:
        self.name = name
        self.engine = engine
        self.rows = 0
        self._process: SpawnProcess | None = None
        self._ready = False
        self._closed = False

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy threads' locks
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_child, args=(theirs, self.name, self.engine), name="disco-model", daemon=True
        )
        self._process.start()
        theirs.close()  # so that the end of the child is the end of the pipe

    def wait(self) -> None:
        """Until the model is loaded; a UserError says why it cannot be."""
        if self._closed:
            raise ModelFailed("the server is ending")
        if self._process is None:
            self.start()
        if not self._ready:
            self._answer(None)
            self._ready = True

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def translate(self, batch: Batch, on_pass: OnPass[str] | None = None) -> list[Translation]:
        try:
            try:
                self.wait()
            except UserError:  # after a restart: no mistake of a client's
                raise ModelFailed("it cannot be loaded again") from None
            self._pipe.send((batch, on_pass is not None))
            translations, rows = self._answer(on_pass)
        except (EOFError, OSError):
            code = self._end()  # the next batch starts it again
            raise ModelFailed(f"its process has ended ({code})") from None
        self.rows += rows
        return list(translations)

    def _answer(self, on_pass: OnPass[str] | None) -> Any:
        stopped: Exception | None = None
        while True:
            kind, value = self._pipe.recv()
            if kind == "pass":
                stopped = stopped or self._hand_on(on_pass, value)
            elif stopped is not None:
                raise stopped
            elif kind == "done":
                return value
            else:
                raise UserError(value) if kind == "refused" else ModelFailed(value)

    def _hand_on(self, on_pass: OnPass[str] | None, now: Pass[str]) -> Exception | None:
        """Report a pass; if that raises, the child is told to stop."""
        try:
            if on_pass is not None:
                on_pass(now)
        except Exception as error:
            self._pipe.send(STOP)
            return error
        return None

    def close(self) -> None:
        """End the child, at the latest after its current sentences."""
        self._closed = True
        self._end()

    def _end(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        self._pipe.close()
        process.join(5 if self._ready else 0)
        if process.is_alive():
            process.kill()
            process.join()
        self._ready = False
        return process.exitcode


def _child(pipe: Connection, name: str, engine: EngineOptions) -> None:
    """Load, then translate until the pipe ends: with the parent, whatever became of it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # sent to the whole group; the parent decides when to end
    try:
        decoder = _load(pipe, name, engine)
        trimmed = time.monotonic()
        while decoder is not None:
            task = pipe.recv()
            if task != STOP:
                pipe.send(_outcome(pipe, decoder, *task))
                if time.monotonic() - trimmed > TRIM_EVERY:
                    trim_memory()
                    trimmed = time.monotonic()
    except (EOFError, OSError):
        return


def trim_memory() -> None:
    """Give free memory back to the system, where the C library is glibc.

    Batches of ever new shapes leave holes between what torch holds, and glibc keeps them until it is asked:
    without this a server grows to several times its size.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        return


def _load(pipe: Connection, name: str, engine: EngineOptions) -> LocalDecoder | None:
    try:
        decoder = LocalDecoder(Translator.from_pretrained(name, engine))
        # The first translation is slow; no client should have to wait for it.
        decoder.translate(Batch([Sentence("Hello.")], DecodingOptions(iterations=2)))
    except UserError as error:
        pipe.send(("refused", str(error)))
        return None
    pipe.send(("done", None))
    return decoder


def _outcome(pipe: Connection, decoder: LocalDecoder, batch: Batch, watched: bool) -> tuple[str, Any]:
    def on_pass(now: Pass[str]) -> None:
        if pipe.poll():
            raise ModelFailed("nobody waits")  # the parent knows: it has asked to stop
        pipe.send(("pass", now))

    before = decoder.rows
    try:
        translations = decoder.translate(batch, on_pass if watched else None)
    except UserError as error:
        return "refused", str(error)
    except Exception as error:
        return "failed", describe(error)
    return "done", (translations, decoder.rows - before)
