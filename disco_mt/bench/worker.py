"""The process of one system: it does what it is asked, one request at a time, and holds its own clock.

Every system has a process, so that peak memory is its own and no thread pool disturbs another. While one
works, the others wait for their pipe and use no processor.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from disco_mt.bench.peak import measure_peak
from disco_mt.bench.runners import Runner, computes_in_torch, load_runner
from disco_mt.bench.sentences import Outcome, Sentence
from disco_mt.bench.system import System
from disco_mt.core.errors import UserError


@dataclass(frozen=True)
class Load:
    """Load the model for so many threads -> None."""

    threads: int


@dataclass(frozen=True)
class Turn:
    """Translate sentences one at a time, in order -> Clocked of each."""

    places: tuple[int, ...]


@dataclass(frozen=True)
class Batches:
    """Translate sentences, `size` at a time -> seconds of all."""

    places: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Translate:
    """Translate sentences, `size` at a time -> an Outcome of each."""

    places: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class AskMemory:
    """-> Memory."""


@dataclass(frozen=True)
class Peak:
    """Multiply matrices with so many threads -> GFLOP/s by precision."""

    threads: int


Request = Load | Turn | Batches | Translate | AskMemory | Peak


@dataclass(frozen=True)
class Memory:
    """Megabytes of the process."""

    libraries: float  # before the model was loaded
    loading: float  # most while it was loaded
    peak: float  # most while it translated, libraries and model included


@dataclass(frozen=True)
class Clocked:
    """Seconds of one sentence."""

    wall: float
    processor: float  # of all threads: no waiting for a core in it, but caches are shared


@dataclass(frozen=True)
class Refused:
    """The reply to a request that this machine or model cannot fulfil."""

    why: str


class Worker:
    """One system and its sentences."""

    def __init__(self, system: System | None, sentences: Sequence[Sentence]) -> None:
        self.system, self.sentences = system, sentences
        self.runner: Runner | None = None
        self.libraries, self.loading = resident(), 0.0

    def answer(self, request: Request) -> object:
        """Do it."""
        match request:
            case Load(threads):
                self._load(threads)
                return None
            case Turn(places):
                return [self._timed([place]) for place in places]
            case Batches(places, size):
                return sum(self._timed(batch).wall for batch in self._batched(places, size))
            case Translate(places, size):
                return self._translate(places, size)
            case AskMemory():
                return Memory(self.libraries, self.loading, resident_peak())
            case Peak(threads):
                torch.set_num_threads(threads)
                return measure_peak()

    def _load(self, threads: int) -> None:
        assert self.system is not None
        if self.runner is not None and computes_in_torch(self.system):  # torch can change its mind
            torch.set_num_threads(threads)
            return
        self.runner = None  # the old one goes first
        forget_peak()
        self.runner = load_runner(self.system, threads)
        self.loading = resident_peak()
        forget_peak()

    def _timed(self, places: Sequence[int]) -> Clocked:
        assert self.runner is not None
        batch = [self.sentences[place] for place in places]
        used, started = time.process_time(), time.perf_counter()
        self.runner.translate(batch)
        return Clocked(time.perf_counter() - started, time.process_time() - used)

    def _translate(self, places: Sequence[int], size: int) -> list[Outcome]:
        assert self.runner is not None
        found: dict[int, Outcome] = {}
        for batch in self._batched(places, size):
            outcomes = self.runner.translate([self.sentences[place] for place in batch])
            found.update(zip(batch, outcomes, strict=True))
        return [found[place] for place in places]

    def _batched(self, places: Sequence[int], size: int) -> list[list[int]]:
        """Long sentences together: less padding, for all systems alike."""
        ordered = sorted(places, key=lambda place: -_size(self.sentences[place]))
        return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def serve(connection: Connection, system: System | None, sentences: Sequence[Sentence]) -> None:
    """The life of the process: until the other end of the pipe is closed."""
    worker = Worker(system, sentences)
    while True:
        try:
            request = connection.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            reply = worker.answer(request)
        except UserError as error:
            reply = Refused(str(error))
        connection.send(reply)


def _size(sentence: Sentence) -> int:
    return len(sentence.source) or len(sentence.text)


def resident() -> float:
    """Megabytes of this process now; 0 where the system does not say."""
    return _status("VmRSS")


def resident_peak() -> float:
    """The most since the last `forget_peak`."""
    return _status("VmHWM")


def forget_peak() -> None:
    """Let the peak start from here (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def _status(name: str) -> float:
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")), 0.0)
