"""The measurement: all systems in one run, taking turns, each in its own process.

For every number of threads: load, warm up, then rounds. In a round every system translates the same
sentences one at a time, the first one of them twice (only the second counts: what the last system left in the
caches is not its fault). The order changes from round to round, so that whatever else the machine does meets
all of them. Then the same with batches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from disco_mt.bench.child import Child, Died
from disco_mt.bench.export import exported
from disco_mt.bench.sentences import Outcome, Sentence
from disco_mt.bench.system import System
from disco_mt.bench.worker import Memory
from disco_mt.core.errors import UserError
from disco_mt.core.machine import avoid_broken_amx
from disco_mt.core.settings import at_least
from disco_mt.reporting.load import Load, LoadGuard

_SPIN = 0.25  # seconds that the idle threads of a runtime keep spinning after their work
Advance = Callable[[int], None]


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    threads: tuple[int, ...] = (1, 2)
    repeats: int = 5
    timed: tuple[int, ...] = ()  # places of the sentences that are translated one at a time
    batched: tuple[int, ...] = ()  # of those that are translated in batches
    sizes: tuple[int, ...] = (8, 32)  # sentences in a batch
    batch_repeats: int = 2
    scored: tuple[int, ...] = ()  # of those whose translations are kept, for BLEU and the counts
    score_size: int = 1  # how many of them are a batch

    def __post_init__(self) -> None:
        for name in ("threads", "sizes"):
            for value in getattr(self, name):
                at_least(name, value, 1)
        at_least("repeats", self.repeats, 1)

    def rounds(self) -> int:
        """Turns of each system."""
        return len(self.threads) * (self.repeats + self.batch_repeats * len(self.sizes)) + 1


@dataclass
class Times:
    """One system with one number of threads."""

    seconds: list[list[float]] = field(default_factory=list)  # [repeat][sentence]
    processor: list[list[float]] = field(default_factory=list)  # the same, of processor time
    batches: dict[int, list[float]] = field(default_factory=dict)  # by size: seconds of all, each repeat


@dataclass
class Result:
    """All that was found out about a system."""

    system: System
    times: dict[int, Times] = field(default_factory=dict)  # by threads
    memory: Memory | None = None
    outcomes: list[Outcome] = field(default_factory=list)  # of the scored sentences
    died: str = ""  # why the rest is missing


@dataclass(frozen=True)
class Measured:
    """A whole run."""

    plan: Plan
    sentences: tuple[Sentence, ...]
    results: tuple[Result, ...]
    peak: dict[int, dict[str, float]]  # by threads and precision: GFLOP/s
    load: Load

    @property
    def alive(self) -> list[Result]:
        """The systems that came through."""
        return [result for result in self.results if not result.died]


def measure(
    systems: Sequence[System],
    sentences: Sequence[Sentence],
    plan: Plan,
    advance: Advance,
    warn: Callable[[str], None],
) -> Measured:
    """Run it all. `advance` is told of every turn, `warn` of a busy machine and of systems that died."""
    avoid_broken_amx()
    guard = LoadGuard()
    if guard.hint():
        warn(guard.hint())
    with TemporaryDirectory(prefix="disco-bench-") as folder:
        results = [Result(system) for system in exported(systems, Path(folder))]
        with _children(results, sentences) as run:
            guard.begin(run.pids())
            for threads in plan.threads:
                run.at(threads, plan, guard, advance)
            run.each(lambda result, child: _score(result, child, plan), advance)
            measured = Measured(plan, tuple(sentences), tuple(results), run.peak, guard.result())
    for result in results:
        if result.died:
            warn(f"{result.system.label}: {result.died}")
    if not measured.alive:
        raise UserError("no system could be measured; see the warnings above")
    return measured


class Run:
    """The living processes, and whose turn it is."""

    def __init__(self, results: Sequence[Result], children: list[Child], meter: Child) -> None:
        self._pairs, self._meter = list(zip(results, children, strict=True)), meter
        self.peak: dict[int, dict[str, float]] = {}
        self._turn = 0

    def pids(self) -> list[int]:
        """Of all processes that are ours."""
        return [self._meter.pid, *(child.pid for _, child in self._pairs)]

    def at(self, threads: int, plan: Plan, guard: LoadGuard, advance: Advance) -> None:
        """Everything with one number of threads."""
        first = threads == plan.threads[0]
        self.peak[threads] = {}
        self._load(threads)
        self.each(lambda result, child: _warm_up(result, child, threads, plan))
        for _ in range(plan.repeats):
            self._measure_peak(threads)
            self.each(lambda result, child: _turn(result, child, threads, plan), advance)
            guard.round()
        if first:  # reloading for other threads would disturb it, and batches are another question
            self.each(_ask_memory)
        for size in plan.sizes:
            for _ in range(plan.batch_repeats):
                self.each(lambda result, child, n=size: _batch(result, child, threads, plan, n), advance)  # type: ignore[misc]
                guard.round()

    def _load(self, threads: int) -> None:
        """All at the same time, as many as there are cores: nobody's clock runs."""
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            pairs = [pair for pair in self._pairs if not pair[0].died]
            for result, why in pool.map(lambda pair: (pair[0], _load(pair[1], threads)), pairs):
                result.died = why

    def each(self, do: Callable[[Result, Child], None], advance: Advance = lambda _: None) -> None:
        """Every system in turn, another one first each time; one that dies is left out from then on."""
        self._turn += 1
        pairs = [pair for pair in self._pairs if not pair[0].died]
        start = self._turn % len(pairs) if pairs else 0
        for result, child in pairs[start:] + pairs[:start]:
            try:
                do(result, child)
            except Died as death:
                result.died = str(death)
            advance(1)

    def _measure_peak(self, threads: int) -> None:
        _pause(threads)
        best = self.peak[threads]
        try:
            found = self._meter.peak(threads)
        except Died:  # no peak, no share of it
            return
        best.update({name: max(value, best.get(name, 0.0)) for name, value in found.items()})


@contextmanager
def _children(results: Sequence[Result], sentences: Sequence[Sentence]) -> Iterator[Run]:
    children = [Child(result.system, sentences) for result in results]
    meter = Child(None, ())
    try:
        yield Run(results, children, meter)
    finally:
        for child in (*children, meter):
            child.close()


def _load(child: Child, threads: int) -> str:
    """Why it cannot be loaded; "" if it can."""
    try:
        child.load(threads)
    except Died as death:
        return str(death)
    return ""


def _warm_up(result: Result, child: Child, threads: int, plan: Plan) -> None:
    child.turn(plan.timed[:1] + plan.timed[-1:])
    result.times[threads] = Times(batches={size: [] for size in plan.sizes})


def _turn(result: Result, child: Child, threads: int, plan: Plan) -> None:
    _pause(threads)
    seconds = child.turn((plan.timed[0], *plan.timed))
    result.times[threads].seconds.append([each.wall for each in seconds[1:]])
    result.times[threads].processor.append([each.processor for each in seconds[1:]])


def _batch(result: Result, child: Child, threads: int, plan: Plan, size: int) -> None:
    _pause(threads)
    result.times[threads].batches[size].append(child.batches(plan.batched, size))


def _pause(threads: int) -> None:
    """Until the one before has left the cores; a single thread leaves none behind."""
    if threads > 1:
        time.sleep(_SPIN)


def _ask_memory(result: Result, child: Child) -> None:
    result.memory = child.memory()


def _score(result: Result, child: Child, plan: Plan) -> None:
    result.outcomes = child.translate(plan.scored, plan.score_size)
