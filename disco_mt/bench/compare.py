"""Who is faster than whom: pairs of systems that may be compared, their ratios, and what follows in words.

Compared is with the same precision, and with the autoregressive model of the same shape where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from disco_mt.bench.measure import Measured, Result
from disco_mt.bench.system import shape
from disco_mt.reporting.intervals import Interval
from disco_mt.reporting.timing import Seconds, latency, ratio
from disco_mt.reporting.verdicts import Judge

BEST = 0  # instead of a number of threads: each system with the number that is best for it
PROCESSOR = -1  # one thread, processor time: no waiting for a core in it, but caches are shared


@dataclass(frozen=True)
class Ratio:
    """Time of the autoregressive system over time of the other: above 1 the other one is faster."""

    system: str
    baseline: str
    threads: int  # or BEST, or PROCESSOR
    value: Interval

    @property
    def tie(self) -> bool:
        """Is it not decided who is faster?"""
        return self.value.low <= 1 <= self.value.high


def best_threads(result: Result) -> int:
    """The number of threads with which a sentence takes least time."""
    return min(result.times, key=lambda threads: latency(result.times[threads].seconds).mean)


def best_batch(result: Result, threads: int, sentences: int) -> tuple[int, float]:
    """The size of the batches with most sentences a second, and how many these are; (0, 0.0) if unknown."""
    taken = {size: min(times) for size, times in result.times[threads].batches.items() if times}
    if not taken:
        return 0, 0.0
    size = min(taken, key=lambda each: taken[each])
    return size, sentences / taken[size]


def fastest_batch(result: Result, sentences: int) -> tuple[int, int, float]:
    """Threads, batch size and sentences a second of the best batch."""
    found = [(threads, *best_batch(result, threads, sentences)) for threads in result.times]
    return max(found, key=lambda each: each[2])


def baselines(result: Result, others: Sequence[Result]) -> list[Result]:
    """The autoregressive systems to compare with: same precision, and the same shape where there is one."""
    if result.system.kind == "autoregressive":
        return []
    own = result.system
    found = [
        each
        for each in others
        if each.system.kind == "autoregressive" and each.system.precision == own.precision
    ]
    same = [each for each in found if shape(each.system.weights.config) == shape(own.weights.config)]
    return same or found


def ratios(measured: Measured, samples: int = 1000) -> list[Ratio]:
    """Every pair, at equal threads and with each at its best."""
    found = []
    for result in measured.alive:
        for other in baselines(result, measured.alive):
            for setting in _settings(measured):
                value = ratio(_seconds(other, setting), _seconds(result, setting), samples)
                found.append(Ratio(result.system.label, other.system.label, setting, value))
    return found


def _settings(measured: Measured) -> tuple[int, ...]:
    threads = measured.plan.threads
    alone = (PROCESSOR,) if 1 in threads else ()
    return (*alone, *threads, BEST) if len(threads) > 1 else (*alone, *threads)


def _seconds(result: Result, setting: int) -> Seconds:
    if setting == PROCESSOR:
        return result.times[1].processor
    return result.times[setting or best_threads(result)].seconds


def verdict(measured: Measured, found: Sequence[Ratio]) -> list[str]:
    """What the figures say, in words; where AT wins it is said, and a tie is called a tie."""
    settings = _settings(measured)
    told = {settings[-1], PROCESSOR} if measured.load.busy else {settings[-1]}
    return [
        *[_fastest(measured, precision) for precision in _precisions(measured)],
        *[_sentence(each) for each in found if each.threads in told],
        *_batches(measured),
    ]


def _precisions(measured: Measured) -> list[str]:
    return list(dict.fromkeys(result.system.precision for result in measured.alive))


def _fastest(measured: Measured, precision: str) -> str:
    """The quickest with one sentence at a time, unless it shares the place."""
    there = [result for result in measured.alive if result.system.precision == precision]
    ranked = sorted(there, key=lambda each: latency(each.times[best_threads(each)].seconds).mean)
    first = ranked[0]
    name, ms = first.system.label, latency(first.times[best_threads(first)].seconds).mean
    words = f"One sentence at a time, {precision}: fastest is {name} with {ms:.1f} ms"
    for second in ranked[1:2]:
        lead = ratio(second.times[best_threads(second)].seconds, first.times[best_threads(first)].seconds)
        behind = f"{second.system.label} ({_times(lead)} of its time)"
        words += f", in a tie with {behind}" if lead.low <= 1 else f", ahead of {behind}"
    return words + "."


def _sentence(each: Ratio) -> str:
    """One comparison: faster, slower or a tie."""
    special = {BEST: "each at its best thread count", PROCESSOR: "processor time of one thread"}
    how = special.get(each.threads, f"{each.threads} thread(s)")
    if each.tie:
        return f"Tie: {each.system} and {each.baseline} ({how}): {_times(each.value)}."
    if each.value.estimate > 1:
        return f"{each.system} is {_times(each.value)} as fast as {each.baseline} ({how})."
    back = Interval(1 / each.value.estimate, 1 / each.value.high, 1 / each.value.low)
    return f"AT wins: {each.baseline} is {_times(back)} as fast as {each.system} ({how})."


def _batches(measured: Measured) -> list[str]:
    """The highest throughput, whoever has it."""
    number = len(measured.plan.batched)
    rates = {each.system.label: fastest_batch(each, number) for each in measured.alive}
    if not any(rate for _, _, rate in rates.values()):
        return []
    (first, (threads, size, rate)), *rest = sorted(rates.items(), key=lambda item: -item[1][2])
    other = f"; next is {rest[0][0]} with {rest[0][1][2]:.1f}" if rest else ""
    batch = f"batches of {size}, {threads} thread(s)"
    return [f"Best batch: {first} has the highest throughput, {rate:.1f} sentences/s ({batch}){other}."]


def costs(measured: Measured, judge: Judge) -> list[str]:
    """What int8 and the shortlist cost in BLEU: each system beside itself in fp32, and with all words."""
    found = []
    for result in measured.alive:
        system = result.system
        for name, whole in (
            ("fp32", replace(system, precision="fp32")),
            ("all words", replace(system, shortlist="")),
        ):
            for other in measured.alive:
                if other.system == whole and whole != system:
                    texts = [tuple(each.text for each in one.outcomes) for one in (result, other)]
                    change = judge.difference(texts[0], texts[1])
                    found.append(f"BLEU of {system.label} against {name}: {change}.")
    return found


def _times(value: Interval) -> str:
    return f"{value.estimate:.2f} times [{value.low:.2f}, {value.high:.2f}]"
