"""The measurement: all entries in one run, taking turns, each in its own process.

For every number of threads: load, warm up, then rounds. In a round every entry translates the same sentences
one at a time, the first one of them twice (only the second counts: what the last entry left in the caches is
not its fault). The order changes from round to round, so that whatever else the machine does meets all of
them. Then the same with batches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from disco_mt.bench.entries import Entry, Weights
from disco_mt.bench.process import Child, Died, Memory, Worker
from disco_mt.bench.runners import Outcome, load_model
from disco_mt.bench.sentences import Sentence
from disco_mt.core.errors import UserError
from disco_mt.core.machine import avoid_broken_amx
from disco_mt.core.special_tokens import NUM_SPECIAL, SPECIAL_TOKENS
from disco_mt.engine.ctranslate2 import export_ctranslate2
from disco_mt.engine.shortlist import Shortlist
from disco_mt.nn.directory import read_config
from disco_mt.reporting.load import Load, LoadGuard
from disco_mt.reporting.timing import rounds
from disco_mt.text.pair import TextPair

_SPIN = 0.25  # seconds that the idle threads of a runtime keep spinning after their work
Advance = Callable[[int], None]


@dataclass(frozen=True)
class Plan:
    threads: tuple[int, ...] = (1, 2)
    repeats: int = 5
    timed: tuple[int, ...] = ()  # places of the sentences that are translated one at a time
    batched: tuple[int, ...] = ()  # of those that are translated in batches
    sizes: tuple[int, ...] = (8, 32)  # sentences in a batch
    batch_repeats: int = 2
    scored: tuple[int, ...] = ()  # of those whose translations are kept, for BLEU and the counts
    score_size: int = 1  # how many of them are a batch

    def turns(self) -> int:
        return len(self.threads) * (self.repeats + self.batch_repeats * len(self.sizes)) + 1


@dataclass
class Times:
    seconds: list[list[float]] = field(default_factory=list)  # [repeat][sentence]
    processor: list[list[float]] = field(default_factory=list)  # the same, of processor time
    batches: dict[int, list[float]] = field(default_factory=dict)  # by size: seconds of all, each repeat


@dataclass
class Result:
    entry: Entry
    times: dict[int, Times] = field(default_factory=dict)  # by threads
    memory: Memory | None = None
    outcomes: list[Outcome] = field(default_factory=list)  # of the scored sentences
    died: str = ""  # why the rest is missing

    @property
    def label(self) -> str:
        return self.entry.label


@dataclass(frozen=True)
class Measured:
    plan: Plan
    sentences: tuple[Sentence, ...]
    results: tuple[Result, ...]
    peak: dict[int, dict[str, float]]  # by threads and precision: GFLOP/s
    load: Load

    @property
    def alive(self) -> list[Result]:
        return [result for result in self.results if not result.died]


def measure(
    entries: Sequence[Entry],
    sentences: Sequence[Sentence],
    plan: Plan,
    advance: Advance,
    warn: Callable[[str], None],
) -> Measured:
    """Run it all. `advance` is called with every turn, `warn` if the machine is busy or an entry died."""
    avoid_broken_amx()
    guard = LoadGuard()
    if guard.hint():
        warn(guard.hint())
    with TemporaryDirectory(prefix="disco-bench-") as folder, ExitStack() as stack:
        results = [Result(entry) for entry in exported(entries, Path(folder))]
        children = [stack.enter_context(closing(Child(result.entry, sentences))) for result in results]
        meter = stack.enter_context(closing(Child(None, ())))
        guard.begin([child.pid for child in (*children, meter)])
        run = _Run(plan, list(zip(results, children, strict=True)), meter, guard, advance)
        for threads in plan.threads:
            run.at(threads)
        run.score()
        measured = Measured(plan, tuple(sentences), tuple(results), run.peak, guard.result())
    for result in results:
        if result.died:
            warn(f"{result.label}: {result.died}")
    if not measured.alive:
        raise UserError("no system could be measured; see the warnings above")
    return measured


@dataclass
class _Run:
    plan: Plan
    pairs: list[tuple[Result, Child]]
    meter: Child
    guard: LoadGuard
    advance: Advance
    peak: dict[int, dict[str, float]] = field(default_factory=dict)

    def at(self, threads: int) -> None:
        plan = self.plan
        self._load(threads)
        self.peak[threads] = {}
        for result, child in _alive(self.pairs):
            result.times[threads] = Times(batches={size: [] for size in plan.sizes})
            with _noting_death(result):
                child.ask(Worker.turn, plan.timed[:1] + plan.timed[-1:])  # warm-up
        for order in rounds(self.pairs, plan.repeats, self.guard):
            _pause(threads)
            with suppress(Died):  # no peak, no share of it
                for name, value in self.meter.ask(Worker.peak, threads).items():
                    self.peak[threads][name] = max(value, self.peak[threads].get(name, 0.0))
            for result, child in _alive(order):
                with self._turn(result, threads):
                    _, *clocked = child.ask(Worker.turn, (plan.timed[0], *plan.timed))
                    result.times[threads].seconds.append([each.wall for each in clocked])
                    result.times[threads].processor.append([each.processor for each in clocked])
        if threads == plan.threads[0]:  # reloading for other threads would disturb it, and so would batches
            for result, child in _alive(self.pairs):
                with _noting_death(result):
                    result.memory = child.ask(Worker.memory)
        for size in plan.sizes:
            for order in rounds(self.pairs, plan.batch_repeats, self.guard):
                for result, child in _alive(order):
                    with self._turn(result, threads):
                        seconds = child.ask(Worker.batches, plan.batched, size)
                        result.times[threads].batches[size].append(seconds)

    def score(self) -> None:
        for result, child in _alive(self.pairs):
            with self._turn(result, 1):
                result.outcomes = child.ask(Worker.translate, self.plan.scored, self.plan.score_size)

    def _load(self, threads: int) -> None:
        """As many at the same time as there are cores: nobody's clock runs."""

        def load(pair: tuple[Result, Child]) -> None:
            with _noting_death(pair[0]):
                pair[1].ask(Worker.load, threads)

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(load, _alive(self.pairs)))

    @contextmanager
    def _turn(self, result: Result, threads: int) -> Iterator[None]:
        """One entry has the machine to itself."""
        _pause(threads)
        with _noting_death(result):
            yield
        self.advance(1)


def _alive(pairs: Sequence[tuple[Result, Child]]) -> list[tuple[Result, Child]]:
    return [(result, child) for result, child in pairs if not result.died]


@contextmanager
def _noting_death(result: Result) -> Iterator[None]:
    """An entry whose process dies is left out from then on."""
    try:
        yield
    except Died as death:
        result.died = str(death)


def _pause(threads: int) -> None:
    """Until the one before has left the cores; a single thread leaves none behind."""
    if threads > 1:
        time.sleep(_SPIN)


def exported(entries: Sequence[Entry], folder: Path) -> list[Entry]:
    """The entries; those of CTranslate2 with their weights in its format, written once per model."""
    paths: dict[str, Path] = {}
    ready = []
    for entry in entries:
        if entry.engine != "ctranslate2":
            ready.append(entry)
            continue
        weights = entry.weights
        tokens = _vocabularies(weights)
        if weights.name not in paths:
            paths[weights.name] = folder / f"model-{len(paths)}"
            export_ctranslate2(load_model(weights), *tokens, paths[weights.name])
        if entry.shortlist:
            Shortlist.load(Path(entry.shortlist)).save_vmap(paths[weights.name] / "vmap.txt", *tokens)
        ready.append(replace(entry, weights=replace(weights, exported=str(paths[weights.name]))))
    return ready


def _vocabularies(weights: Weights) -> tuple[list[str], list[str]]:
    """Tokens of source and target by id; random weights have numbers."""
    if weights.path:
        path = Path(weights.path)
        return TextPair.load(path, read_config(path).text).vocabularies()
    sizes = (weights.config.source_vocabulary, weights.config.target_vocabulary)
    source, target = ([*SPECIAL_TOKENS, *map(str, range(NUM_SPECIAL, size))] for size in sizes)
    return source, target
