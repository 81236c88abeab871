"""Processes that run side by side: `disco` commands, locks against a second one, and an orderly end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from disco_mt.core.errors import UserError
from disco_mt.core.files import try_lock

_LOOK_AGAIN = 0.5  # seconds between two looks at a lock that another process has


class StoppedError(UserError):
    """This stage was stopped together with the others, or before it had begun."""


@dataclass
class Commands:
    """Runs `disco` commands from several threads, and ends them all when one is told to."""

    threads: int  # of each command
    processes: int = 1  # of a training
    device: str = "cpu"
    children: set[subprocess.Popen[str]] = field(default_factory=set)
    guard: threading.Lock = field(default_factory=threading.Lock)
    stopping: bool = False

    def run(self, arguments: list[str], lock: int, show: Callable[[str], None], merge: bool) -> int:
        """Run one command and `show` each line of its output; returns its exit code.

        lock: a descriptor that the command inherits, so that the lock lasts as long as the work, even if this
        process is killed. merge: show standard error, too, which else goes where ours goes.
        """
        with self._started(arguments, lock, merge) as process:
            assert process.stdout is not None
            for line in process.stdout:
                show(line.removesuffix("\n"))
            return process.wait()

    def _module(self, arguments: list[str]) -> list[str]:
        """disco with these arguments, started by torchrun if it is a training of several processes."""
        if arguments[0] != "train" or self.processes == 1:
            return ["-m", "disco_mt", *arguments]
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.processes}"]
        # Without "--" torchrun takes an option that begins like one of its own (--start) for that.
        return [*launcher, "-m", "--", "disco_mt", *arguments]

    def stop(self) -> None:
        """Ask all commands to end: training saves, distillation has kept its finished shards."""
        with self.guard:
            self.stopping = True
            for child in self.children:
                child.terminate()

    @contextmanager
    def _started(self, arguments: list[str], lock: int, merge: bool) -> Iterator[subprocess.Popen[str]]:
        with self.guard:
            if self.stopping:
                raise StoppedError("stopped")
            process = subprocess.Popen(
                [sys.executable, *self._module(arguments)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if merge else None,
                encoding="utf-8",
                env={**os.environ, "OMP_NUM_THREADS": str(self.threads)},
                pass_fds=(lock,),
            )
            self.children.add(process)
        try:
            with process:
                yield process
        finally:
            with self.guard:
                self.children.discard(process)


@contextmanager
def locked(directory: Path, wait: Callable[[], None]) -> Iterator[int]:
    """The lock of a directory, which is made; `wait` is called before each wait for another process.

    Yields the descriptor that holds the lock.
    """
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        while not try_lock(handle):
            wait()
            time.sleep(_LOOK_AGAIN)
        yield handle
    finally:
        os.close(handle)
