"""Is the machine busy with something else? Times are doubtful then, and the report says by how much.

The load average lags behind by a minute and counts us, too. So the cores' own counters are read (/proc/stat,
Linux) and what our own processes used is taken off. Elsewhere the load average must do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

BUSY = 0.2  # cores that others may use before times are called doubtful
_PROC = Path("/proc")


@dataclass(frozen=True)
class Counters:
    """CPU seconds since the machine was started."""

    wall: float
    busy: float  # all cores together
    processes: dict[int, float]  # by process id

    def others(self, later: Counters, own: Collection[int]) -> float:
        """Cores that other processes used, on average, between two readings."""
        mine = sum(
            later.processes.get(pid, 0.0) - self.processes.get(pid, 0.0)
            for pid in own
            if pid in later.processes
        )
        elapsed = max(later.wall - self.wall, 1e-9)
        return max(0.0, (later.busy - self.busy - mine) / elapsed)


def read_counters(proc: Path = _PROC) -> Counters | None:
    """What the kernel has counted; None where there is no such file."""
    try:
        with (proc / "stat").open(encoding="ascii") as stream:
            fields = [int(each) for each in stream.readline().split()[1:]]
    except (OSError, ValueError):
        return None
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system, _, _, irq, soft, *steal = fields[:8]  # idle and waiting for disks are not busy
    busy = user + nice + system + irq + soft + sum(steal)
    return Counters(time.monotonic(), busy / tick, dict(_processes(proc, tick)))


def _processes(proc: Path, tick: int) -> Iterator[tuple[int, float]]:
    for entry in proc.iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:  # it has ended meanwhile
                continue
            after = text.rpartition(")")[2].split()  # the name may have spaces and brackets
            yield int(entry.name), (int(after[11]) + int(after[12])) / tick


@dataclass(frozen=True)
class Load:
    before: float
    during: float
    worst: float  # of the rounds
    cores: int

    @property
    def busy(self) -> bool:
        return max(self.before, self.during) > BUSY

    def warning(self) -> str:
        """In words, with the figures; "" if all is well."""
        if not self.busy:
            return ""
        return (
            f"the machine was busy: other processes used {self.before:.2f} of {self.cores} cores before the "
            f"measurement and {self.during:.2f} during it (worst round {self.worst:.2f}; up to {BUSY:g} is "
            "fine). Ratios may hold, because all systems took turns; absolute times do not. Measure again "
            "when nothing else runs"
        )


class LoadGuard:
    """Watches over a measurement: made before it, told after every round."""

    def __init__(self, seconds: float = 0.5) -> None:
        """Look at the machine for so long before anything of ours runs."""
        first = read_counters()
        time.sleep(seconds)
        self._start = self._last = read_counters()
        self._rounds: list[float] = []
        self._own: set[int] = {os.getpid()}
        self.before = _cores(first, self._last, self._own)

    def begin(self, own: Collection[int]) -> None:
        self._own |= set(own)
        self._start = self._last = read_counters()

    def round(self) -> None:
        now = read_counters()
        self._rounds.append(_cores(self._last, now, self._own))
        self._last = now

    def result(self) -> Load:
        during = _cores(self._start, read_counters(), self._own)
        return Load(self.before, during, max(self._rounds, default=during), os.cpu_count() or 1)

    def hint(self) -> str:
        """Before the measurement: a warning that names the figure; "" if all is well."""
        if self.before <= BUSY:
            return ""
        return (
            f"the machine is busy: other processes use {self.before:.2f} of {os.cpu_count()} cores; "
            "times will be doubtful"
        )


def _cores(first: Counters | None, last: Counters | None, own: Collection[int]) -> float:
    if first is None or last is None:
        return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return first.others(last, own)
