"""How the time of one pass grows with the length of the sentence and with K.

A pass in which every row is predicted and every word changes: the most that a pass can cost. Its time is the
difference between decodings of several passes and of one, which encode and choose lengths alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from disco_mt.bench.entries import Entry, Size, Weights, entries_of, model_name, sized
from disco_mt.bench.measure import Measured, Plan, Result
from disco_mt.bench.report import FORMAT, load_note, machine_facts
from disco_mt.bench.sentences import Sentence, fixed_structures, random_sentences
from disco_mt.engine.incremental import KIND
from disco_mt.reporting.intervals import Interval
from disco_mt.reporting.plots import Figure, Series
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number

LENGTHS = (10, 25, 50, 75, 100)
BEAMS = (1, 2, 5, 10)
QUICK_LENGTHS, QUICK_BEAMS = (10, 20, 40), (1, 5)
MIDDLE, USUAL = 25, 5  # length where K varies, K where the length varies
PASSES = 4  # of the long decoding; the short one has the first alone


@dataclass(frozen=True)
class Growth:
    system: str
    axis: str  # "length" or "K"
    sizes: tuple[int, ...]
    repeats: tuple[tuple[float, ...], ...]  # [repeat][size]
    power: Interval  # time ~ size ** power

    @property
    def times(self) -> tuple[float, ...]:
        return tuple(median(column) for column in zip(*self.repeats, strict=True))


def scaling_entries(size: Size) -> list[Entry]:
    """The incremental engine in each precision, with room for all candidates that a sentence has."""
    config = sized(size, KIND)
    entries = entries_of(Weights(model_name(config), config))
    usual = [each for each in entries if each.engine == "incremental" and each.options.length_beam == USUAL]
    return [replace(each, options=replace(each.options, length_beam=max(BEAMS))) for each in usual]


def scaling_plan(size: Size, repeats: int, quick: bool) -> tuple[list[Sentence], Plan]:
    """For each length and each K a sentence of one pass and one of several."""
    structures = [
        structure
        for words, beam in cases(quick)
        for passes in (1, PASSES)
        for structure in fixed_structures([words], 1, (1.0,) * passes, beam)
    ]
    sentences = random_sentences(structures, sized(size, KIND).source_vocabulary)
    return sentences, Plan((1,), repeats, tuple(range(len(sentences))), sizes=())


def cases(quick: bool) -> list[tuple[int, int]]:
    """(length, K) of all that is measured: lengths first."""
    lengths, beams = (QUICK_LENGTHS, QUICK_BEAMS) if quick else (LENGTHS, BEAMS)
    return [*((words, USUAL) for words in lengths), *((MIDDLE, beam) for beam in beams)]


def growths(measured: Measured) -> list[Growth]:
    structures = [sentence.structure for sentence in measured.sentences[::2]]
    measured_cases = [(each.lengths[0], len(each.lengths)) for each in structures if each is not None]
    middle = next(place for place, (_, beam) in enumerate(measured_cases) if beam != USUAL)
    by_length = {place: words for place, (words, _) in enumerate(measured_cases[:middle])}
    by_beam = {place: beam for place, (_, beam) in enumerate(measured_cases[middle:], middle)}
    return [
        _growth(result, axis, sizes)
        for result in measured.alive
        for axis, sizes in (("length", by_length), ("K", by_beam))
    ]


def _growth(result: Result, axis: str, sizes: dict[int, int]) -> Growth:
    """sizes: by number of the case, which has two sentences."""
    ((threads, times),) = result.times.items()
    clock = times.processor if threads == 1 else times.seconds  # the former has no waiting in it
    repeats = tuple(
        tuple(1000 * (row[2 * case + 1] - row[2 * case]) / (PASSES - 1) for case in sizes) for row in clock
    )
    positive = [[max(ms, 1e-6) for ms in row] for row in repeats]
    name = f"{result.entry.weights.name}, {result.entry.precision}"
    chosen = tuple(sizes.values())
    return Growth(name, axis, chosen, repeats, exponent(chosen, positive))


def exponent(sizes: Sequence[float], times: Sequence[Sequence[float]], samples: int = 1000) -> Interval:
    """p of time ~ size ** p, by least squares on logarithms; times[repeat][size], resampled over repeats."""
    x, y = np.log(np.array(sizes)), np.array(times, dtype=np.float64)
    generator = np.random.default_rng(1)
    drawn = [_slope(x, y[generator.integers(len(y), size=len(y))]) for _ in range(samples)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(_slope(x, y), float(low), float(high))


def _slope(x: NDArray[Any], times: NDArray[Any]) -> float:
    return float(np.polyfit(x, np.log(np.median(times, axis=0)), 1)[0])


def scaling_report(measured: Measured, size: Size, command: str) -> Report:
    found = growths(measured)
    threads = measured.plan.threads[0]
    how = (
        f"A pass predicts all rows and projects all keys; random weights, {size} size, {threads} "
        f"thread(s), {measured.plan.repeats} interleaved repeats, "
        f"{'processor' if threads == 1 else 'wall'} time. By length K is {USUAL}; by K there "
        f"are {MIDDLE} tokens."
    )
    findings = tuple(in_words(growth) for growth in found)
    return Report(
        title=f"How a pass grows, {size} size",
        source="",
        command=command,
        tables=tuple(_table(found, axis) for axis in ("length", "K")),
        figures=tuple(_figure(found, axis) for axis in ("length", "K")),
        notes=(how, load_note(measured)),
        data={
            "format": FORMAT,
            "command": command,
            "machine": machine_facts(),
            "load": {**asdict(measured.load), "busy": measured.load.busy},
            "growth": [{**asdict(growth), "times": growth.times} for growth in found],
            "verdict": list(findings),
        },
        findings=findings,
    )


def in_words(growth: Growth) -> str:
    answers = {
        "yes": "more slowly than linearly",
        "no": "faster than linearly",
        "undecided": "linearly, as far as this run can tell,",
    }
    power, axis = growth.power, growth.axis
    answer = answers[power.below(1.0)]
    return f"{growth.system}: a pass grows {answer} in {axis}: time ~ {axis} to the power {power.unsigned}."


def _table(found: Sequence[Growth], axis: str) -> Table:
    chosen = [growth for growth in found if growth.axis == axis]
    header = ("system", *(f"{axis} {size}" for size in chosen[0].sizes), "exponent")
    rows = tuple(
        (growth.system, *(number(time, 2) for time in growth.times), number(growth.power.estimate))
        for growth in chosen
    )
    return Table(f"ms per pass, by {axis}", header, rows)


def _figure(found: Sequence[Growth], axis: str) -> Figure:
    series = tuple(Series(each.system, each.sizes, each.times) for each in found if each.axis == axis)
    label = "tokens" if axis == "length" else "K"
    return Figure(f"scaling-{axis.lower()}", f"Time of a full pass by {axis}", label, "ms", series)
