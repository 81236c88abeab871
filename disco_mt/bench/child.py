"""A system's process as its parent sees it; one that dies says of what, and the others go on."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Any

from disco_mt.bench.sentences import Outcome, Sentence
from disco_mt.bench.system import System
from disco_mt.bench.worker import (
    AskMemory,
    Batches,
    Clocked,
    Load,
    Memory,
    Peak,
    Refused,
    Request,
    Translate,
    Turn,
    serve,
)

_WAIT = 5.0  # seconds until a process that was told to end is ended


class Died(Exception):  # noqa: N818 (it is what happened)
    """A process is gone, or refuses to go on."""


class Child:
    """Ask it, and wait for its answer."""

    def __init__(self, system: System | None, sentences: Sequence[Sentence]) -> None:
        context = _context()
        self._connection, theirs = context.Pipe()
        arguments = (theirs, system, tuple(sentences))
        self._process = context.Process(target=serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid or 0

    def load(self, threads: int) -> None:
        """Load the model, anew if need be, for so many threads."""
        self._ask(Load(threads))

    def turn(self, places: Sequence[int]) -> list[Clocked]:
        """Seconds of each sentence."""
        seconds: list[Clocked] = self._ask(Turn(tuple(places)))
        return seconds

    def batches(self, places: Sequence[int], size: int) -> float:
        """Seconds of all sentences, `size` at a time."""
        return float(self._ask(Batches(tuple(places), size)))

    def translate(self, places: Sequence[int], size: int) -> list[Outcome]:
        """What it makes of them."""
        outcomes: list[Outcome] = self._ask(Translate(tuple(places), size))
        return outcomes

    def memory(self) -> Memory:
        """Of the process, since the model was loaded."""
        memory: Memory = self._ask(AskMemory())
        return memory

    def peak(self, threads: int) -> dict[str, float]:
        """GFLOP/s of this machine."""
        found: dict[str, float] = self._ask(Peak(threads))
        return found

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.join(_WAIT)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _ask(self, request: Request) -> Any:
        try:
            self._connection.send(request)
            reply = self._connection.recv()
        except (EOFError, OSError):
            self._process.join(_WAIT)
            raise Died(cause(self._process.exitcode)) from None
        if isinstance(reply, Refused):
            raise Died(reply.why)
        return reply


def cause(code: int | None) -> str:
    """Why a process ended, in words."""
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
    context.set_forkserver_preload(["disco_mt.bench.worker"])
    return context
