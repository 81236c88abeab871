"""How the time of one pass grows with the length of the sentence and with K.

A pass in which every row is predicted and every word changes: the most that a pass can cost. Its time is the
difference between decodings of several passes and of one, which encode and choose lengths alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any

from disco_mt.bench.measure import Measured, Plan, Result
from disco_mt.bench.record import FORMAT, machine_facts
from disco_mt.bench.report import Report
from disco_mt.bench.sentences import Sentence, random_sentences
from disco_mt.bench.statistics import exponent
from disco_mt.bench.structures import fixed_structures
from disco_mt.bench.system import Size, System, Weights, shape, sized, systems_of
from disco_mt.reporting.intervals import Interval
from disco_mt.reporting.plots import Figure, Series
from disco_mt.reporting.tables import Table, number

LENGTHS = (10, 25, 50, 75, 100)
BEAMS = (1, 2, 5, 10)
QUICK_LENGTHS, QUICK_BEAMS = (10, 20, 40), (1, 5)
MIDDLE, USUAL = 25, 5  # length where K varies, K where the length varies
PASSES = 4  # of the long decoding; the short one has the first alone


@dataclass(frozen=True)
class Growth:
    """Milliseconds of a pass of one system by one size."""

    system: str
    axis: str  # "length" or "K"
    sizes: tuple[int, ...]
    repeats: tuple[tuple[float, ...], ...]  # [repeat][size]
    power: Interval  # time ~ size ** power

    @property
    def times(self) -> tuple[float, ...]:
        """Median over repeats, by size."""
        return tuple(median(column) for column in zip(*self.repeats, strict=True))


def scaling_systems(size: Size) -> list[System]:
    """DisCo in the engine, in each precision; they take all candidates that a sentence has."""
    config = sized(size, "disco")
    systems = systems_of(Weights(f"DisCo {shape(config)}", config))
    fast = [each for each in systems if each.runtime == "incremental" and each.length_beam == USUAL]
    return [replace(each, length_beam=max(BEAMS)) for each in fast]


def scaling_plan(size: Size, repeats: int, quick: bool) -> tuple[list[Sentence], Plan]:
    """For each length and each K a sentence of one pass and one of several."""
    structures = []
    for words, beam in cases(quick):
        for passes in (1, PASSES):
            structures += fixed_structures([words], 1, (1.0,) * passes, beam)
    sentences = random_sentences(structures, sized(size, "disco").source_vocabulary)
    return sentences, Plan((1,), repeats, tuple(range(len(sentences))), sizes=())


def cases(quick: bool) -> list[tuple[int, int]]:
    """(length, K) of all that is measured: lengths first."""
    lengths, beams = (QUICK_LENGTHS, QUICK_BEAMS) if quick else (LENGTHS, BEAMS)
    return [*((words, USUAL) for words in lengths), *((MIDDLE, beam) for beam in beams)]


def growths(measured: Measured) -> list[Growth]:
    """By length and by K, each system."""
    structures = [sentence.structure for sentence in measured.sentences]
    found = [(each.lengths[0], len(each.lengths)) for each in structures[::2] if each is not None]
    by_length = [place for place in range(len(found)) if place < _lengths(found)]
    by_beam = [place for place in range(len(found)) if place >= _lengths(found)]
    return [
        growth
        for result in measured.alive
        for growth in (
            _growth(result, "length", by_length, [words for words, _ in found]),
            _growth(result, "K", by_beam, [beam for _, beam in found]),
        )
    ]


def _lengths(found: Sequence[tuple[int, int]]) -> int:
    """How many of the cases vary the length: those before K goes back to its smallest."""
    return next(place for place, (_, beam) in enumerate(found) if beam != USUAL)


def _growth(result: Result, axis: str, places: Sequence[int], sizes: Sequence[int]) -> Growth:
    ((threads, times),) = result.times.items()
    clock = times.processor if threads == 1 else times.seconds  # the former has no waiting in it
    repeats = tuple(
        tuple(1000 * (row[2 * place + 1] - row[2 * place]) / (PASSES - 1) for place in places)
        for row in clock
    )
    chosen = tuple(sizes[place] for place in places)
    positive = [[max(each, 1e-6) for each in row] for row in repeats]
    name = f"{result.system.weights.name}, {result.system.precision}"
    return Growth(name, axis, chosen, repeats, exponent(chosen, positive))


def scaling_report(measured: Measured, size: Size, command: str) -> Report:
    """Tables, figures, and whether it is linear."""
    found = growths(measured)
    load = measured.load
    calm = f"Other processes used {load.during:.2f} of {load.cores} cores during the measurement."
    threads = measured.plan.threads[0]
    notes = (
        f"A pass predicts all rows and projects all keys; random weights, {size} size, {threads} "
        f"thread(s), {measured.plan.repeats} interleaved repeats, "
        f"{'processor' if threads == 1 else 'wall'} time. By length K is {USUAL}; by K there "
        f"are {MIDDLE} tokens.",
        f"WARNING: {load.warning()}." if load.busy else calm,
    )
    verdict = tuple(in_words(each) for each in found)
    return Report(
        title=f"How a pass grows, {size} size",
        command=command,
        verdict=verdict,
        tables=tuple(_table(found, axis) for axis in ("length", "K")),
        figures=tuple(_figure(found, axis) for axis in ("length", "K")),
        notes=notes,
        data=_json(found, measured, command, verdict),
    )


def in_words(each: Growth) -> str:
    """Linear or not."""
    answers = {
        "yes": "more slowly than linearly",
        "no": "faster than linearly",
        "undecided": "linearly, as far as this run can tell,",
    }
    answer = answers[each.power.below(1.0)]
    value = f"{each.power.estimate:.2f} [{each.power.low:.2f}, {each.power.high:.2f}]"
    return f"{each.system}: a pass grows {answer} in {each.axis}: time ~ {each.axis} to the power {value}."


def _table(found: Sequence[Growth], axis: str) -> Table:
    rows = [each for each in found if each.axis == axis]
    header = ("system", *(f"{axis} {size}" for size in rows[0].sizes), "exponent")
    cells = tuple(
        (each.system, *(number(time, 2) for time in each.times), number(each.power.estimate)) for each in rows
    )
    return Table(f"ms a pass, by {axis}", header, cells)


def _figure(found: Sequence[Growth], axis: str) -> Figure:
    series = tuple(Series(each.system, each.sizes, each.times) for each in found if each.axis == axis)
    label = "tokens" if axis == "length" else "K"
    return Figure(f"scaling-{axis.lower()}", f"Time of a full pass by {axis}", label, "ms", series)


def _json(
    found: Sequence[Growth], measured: Measured, command: str, verdict: Sequence[str]
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "command": command,
        "machine": machine_facts(),
        "load": {**asdict(measured.load), "busy": measured.load.busy},
        "growth": [{**asdict(each), "times": each.times} for each in found],
        "verdict": list(verdict),
    }
