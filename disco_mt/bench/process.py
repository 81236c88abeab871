"""Every entry has a process of its own, so that peak memory is its own and no thread pool disturbs another.

`Worker` is the process from inside: it does what it is asked, one request at a time, and holds the clock.
`Child` is the process as its parent sees it. While one works, the others wait for their pipe and use no
processor; one that dies says of what, and the others go on.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, SpawnContext
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import torch

from disco_mt.bench.entries import Entry
from disco_mt.bench.peak import measure_peak
from disco_mt.bench.runners import Outcome, Runner, computes_in_torch, load_runner
from disco_mt.bench.sentences import Sentence
from disco_mt.core.errors import UserError
from disco_mt.reporting.timing import Clocked, clock

_WAIT = 5.0  # seconds until a process that was told to end is ended
Places = Sequence[int]  # of sentences
Arguments = TypeVarTuple("Arguments")
Reply = TypeVar("Reply")


@dataclass(frozen=True)
class Memory:
    libraries: float  # before the model was loaded
    loading: float  # most while it was loaded
    peak: float  # most while it translated, libraries and model included


class Worker:
    def __init__(self, entry: Entry | None, sentences: Sequence[Sentence]) -> None:
        self.entry, self.sentences = entry, sentences
        self.runner: Runner | None = None
        self.libraries, self.loading = _megabytes("VmRSS"), 0.0

    def load(self, threads: int) -> None:
        assert self.entry is not None
        if self.runner is not None and computes_in_torch(self.entry):
            torch.set_num_threads(threads)
            return
        self.runner = None  # the old one goes first
        _forget_peak()
        self.runner = load_runner(self.entry, threads)
        self.loading = _megabytes("VmHWM")
        _forget_peak()

    def turn(self, places: Places) -> list[Clocked]:
        return [clock(self._run, [place]) for place in places]

    def batches(self, places: Places, size: int) -> float:
        """Translate sentences, `size` at a time -> seconds of all."""
        return sum(clock(self._run, batch).wall for batch in self._batched(places, size))

    def translate(self, places: Places, size: int) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        for batch in self._batched(places, size):
            outcomes.update(zip(batch, self._run(batch), strict=True))
        return [outcomes[place] for place in places]

    def memory(self) -> Memory:
        return Memory(self.libraries, self.loading, _megabytes("VmHWM"))

    def peak(self, threads: int) -> dict[str, float]:
        torch.set_num_threads(threads)
        return measure_peak()

    def _run(self, places: Places) -> list[Outcome]:
        assert self.runner is not None
        return self.runner.translate([self.sentences[place] for place in places])

    def _batched(self, places: Places, size: int) -> list[Places]:
        """Long sentences together: less padding, for all entries alike."""
        sizes = [len(sentence.source) or len(sentence.text) for sentence in self.sentences]
        ordered = sorted(places, key=lambda place: -sizes[place])
        return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def serve(connection: Connection, entry: Entry | None, sentences: Sequence[Sentence]) -> None:
    worker = Worker(entry, sentences)
    while True:
        try:
            request, arguments = connection.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            connection.send(getattr(worker, request)(*arguments))
        except UserError as error:  # what this machine or model cannot do
            connection.send(error)


class Died(Exception):  # noqa: N818 (it is what happened)
    pass


class Child:
    """Asks a `Worker` in a process of its own, and waits for its answer."""

    def __init__(self, entry: Entry | None, sentences: Sequence[Sentence]) -> None:
        """entry: None for the one that measures the peak of the machine."""
        context = _context()
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, entry, tuple(sentences)), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def ask(self, request: Callable[[Worker, *Arguments], Reply], *arguments: *Arguments) -> Reply:
        """What the worker's method returns over there: `child.ask(Worker.load, 2)`."""
        try:
            self._connection.send((request.__name__, arguments))
            reply = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(_WAIT)
            raise Died(cause(self._process.exitcode)) from None
        if isinstance(reply, UserError):
            raise Died(str(reply))
        answer: Reply = reply
        return answer

    def close(self) -> None:
        self._connection.close()
        self._process.join(_WAIT)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def cause(code: int | None) -> str:
    if code is None:
        return "its process does not answer any more"
    if code >= 0:
        return f"its process ended with code {code}; what it said is above"
    name = signal.Signals(-code).name
    hints = {
        "SIGILL": "the processor does not know an instruction that it was promised; ONEDNN_MAX_CPU_ISA or "
        "MKL_ENABLE_INSTRUCTIONS=AVX512 in the environment may help",
        "SIGKILL": "memory may have run out",
    }
    return f"its process was ended by {name}{': ' + hints[name] if name in hints else ''}"


def _context() -> ForkServerContext | SpawnContext:
    """Processes that share nothing but the libraries, which are loaded once."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["disco_mt.bench.process"])
    return context


def _forget_peak() -> None:
    """Let the peak of the memory start from here (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def _megabytes(name: str) -> float:
    """VmRSS: of this process now; VmHWM: the most since `_forget_peak`; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:")), 0.0)
