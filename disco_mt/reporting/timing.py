"""The one timing harness: systems take turns on the same sentences, one sentence at a time.

In every repeat another system goes first, so that whatever else the machine does meets all of them. A time is
known by repeat and sentence; a ratio is resampled over both, so that its interval reflects sentences that
differ as well as a machine that does.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from disco_mt.reporting.intervals import Interval
from disco_mt.reporting.load import Load, LoadGuard

Item = TypeVar("Item")

WARM_UP = 3  # sentences before the clock starts, each system
Seconds = Sequence[Sequence[float]]
"""[repeat][sentence]"""


@dataclass(frozen=True)
class Clocked:
    wall: float
    processor: float  # of all threads: no waiting for a core in it, but caches are shared


def clock(work: Callable[[Item], object], item: Item) -> Clocked:
    used, started = time.process_time(), time.perf_counter()
    work(item)
    return Clocked(time.perf_counter() - started, time.process_time() - used)


@dataclass(frozen=True)
class Latency:
    mean: float  # over sentences, of the medians over repeats
    low: float  # the quickest repeat
    high: float  # the slowest
    p50: float  # over all times
    p90: float
    p99: float


def latency(seconds: Seconds, places: Sequence[int] | None = None) -> Latency:
    times = 1000 * np.array(seconds, dtype=np.float64)
    times = times if places is None else times[:, list(places)]
    repeats = times.mean(axis=1)
    p50, p90, p99 = np.quantile(times, [0.5, 0.9, 0.99])
    middle = np.median(times, axis=0).mean()
    return Latency(*map(float, (middle, repeats.min(), repeats.max(), p50, p90, p99)))


def ratio(slow: Seconds, fast: Seconds, samples: int = 1000, seed: int = 1) -> Interval:
    """How many times as fast `fast` is: time of `slow` over time of `fast`, with its 95 % interval."""
    both = np.array([slow, fast], dtype=np.float64)  # (2, repeats, sentences)
    generator = np.random.default_rng(seed)
    repeats, sentences = (generator.integers(size, size=(samples, size)) for size in both.shape[1:])
    drawn = _ratios(both[:, repeats[:, :, None], sentences[:, None, :]])  # (2, samples, repeats, sentences)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(float(_ratios(both)), float(low), float(high))


def _ratios(both: NDArray[Any]) -> NDArray[Any]:
    """Median over repeats, sum over sentences, first over second."""
    totals = np.median(both, axis=-2).sum(axis=-1)
    quotient: NDArray[Any] = totals[0] / totals[1]
    return quotient


@dataclass(frozen=True)
class Timing:
    """The times of several systems: seconds[label][repeat][sentence]."""

    seconds: dict[str, list[list[float]]]
    load: Load

    def latency(self, label: str) -> Latency:
        return latency(self.seconds[label])

    def speedup(self, label: str, over: str, samples: int = 1000) -> Interval:
        """Time of `over` divided by time of `label`."""
        return ratio(self.seconds[over], self.seconds[label], samples)

    def notes(self, runtime: str) -> tuple[str, ...]:
        """Clock and machine, with a warning if the machine was busy. runtime: threads, precision."""
        some = next(iter(self.seconds.values()))
        clock = (
            f"Clock: from text to text, one sentence at a time, {len(some[0])} sentences evenly spread over "
            f"the test set, {len(some)} interleaved repeats; median over repeats, lowest and highest in "
            f"brackets. {runtime}, {platform.machine()}."
        )
        return (clock, *([self.load.warning()] if self.load.busy else []))


def take_turns(
    systems: Mapping[str, Callable[[Item], object]], items: Sequence[Item], repeats: int
) -> Timing:
    """Time every system on the same items; a busy machine is warned about on standard error."""
    guard = LoadGuard()
    if guard.hint():
        print(f"disco: warning: {guard.hint()}", file=sys.stderr)
    for run in systems.values():
        for item in items[:WARM_UP]:
            run(item)
    guard.begin([])
    seconds: dict[str, list[list[float]]] = {label: [] for label in systems}
    for order in rounds([*systems], repeats, guard):
        for label in order:
            seconds[label].append([clock(systems[label], item).wall for item in items])
    return Timing(seconds, guard.result())


def rounds(players: Sequence[Item], repeats: int, guard: LoadGuard) -> Iterator[list[Item]]:
    """The order of each round: everyone once, another one first each time."""
    for repeat in range(repeats):
        yield rotated(players, repeat)
        guard.round()


def rotated(items: Sequence[Item], turn: int) -> list[Item]:
    first = turn % len(items) if items else 0
    return [*items[first:], *items[:first]]


def spread(items: Sequence[Item], number: int) -> list[Item]:
    """So many items at even distances: lengths as in the whole."""
    number = min(number, len(items))
    return [items[place * len(items) // number] for place in range(number)]
