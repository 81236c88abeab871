"""Who is faster than whom: pairs of entries that may be compared, their ratios, and what follows in words.

An entry is compared with the autoregressive ones of its precision, and of its shape where there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from disco_mt.bench.entries import BASELINE, shape
from disco_mt.bench.measure import Measured, Result
from disco_mt.reporting.intervals import Interval
from disco_mt.reporting.timing import Seconds, latency, ratio
from disco_mt.reporting.verdicts import Judge
from disco_mt.systems import SYSTEMS

BEST = 0  # instead of a number of threads: each entry with the number that is best for it
PROCESSOR = -1  # one thread, processor time: no waiting for a core in it, but caches are shared


@dataclass(frozen=True)
class Ratio:
    """Time of the autoregressive entry over time of the other: above 1 the other one is faster."""

    label: str
    baseline: str
    threads: int  # or BEST, or PROCESSOR
    value: Interval

    @property
    def tie(self) -> bool:
        return self.value.low <= 1 <= self.value.high


def best_threads(result: Result) -> int:
    return min(result.times, key=lambda threads: latency(result.times[threads].seconds).mean)


def best_seconds(result: Result) -> Seconds:
    return result.times[best_threads(result)].seconds


def fastest_batch(result: Result, sentences: int) -> tuple[int, int, float]:
    """Threads, batch size and sentences per second of the best batch; (threads, 0, 0.0) if none was timed."""
    rates = [
        (threads, size, sentences / min(seconds))
        for threads, times in result.times.items()
        for size, seconds in times.batches.items()
        if seconds
    ]
    return max(rates, key=lambda rate: rate[2], default=(next(iter(result.times)), 0, 0.0))


def baselines(result: Result, others: Sequence[Result]) -> list[Result]:
    """The autoregressive entries to compare with: same precision, and the same shape where there is one."""
    entry = result.entry
    if entry.kind == BASELINE:
        return []
    fitting = [
        other for other in others if other.entry.kind == BASELINE and other.entry.precision == entry.precision
    ]
    own_shape = shape(entry.weights.config)
    return [other for other in fitting if shape(other.entry.weights.config) == own_shape] or fitting


def ratios(measured: Measured, samples: int = 1000) -> list[Ratio]:
    return [
        Ratio(
            result.label,
            other.label,
            setting,
            ratio(_seconds(other, setting), _seconds(result, setting), samples),
        )
        for result in measured.alive
        for other in baselines(result, measured.alive)
        for setting in _settings(measured)
    ]


def _settings(measured: Measured) -> tuple[int, ...]:
    threads = measured.plan.threads
    processor = (PROCESSOR,) if 1 in threads else ()
    return (*processor, *threads, BEST) if len(threads) > 1 else (*processor, *threads)


def _seconds(result: Result, setting: int) -> Seconds:
    if setting == PROCESSOR:
        return result.times[1].processor
    return best_seconds(result) if setting == BEST else result.times[setting].seconds


def verdict(measured: Measured, pairs: Sequence[Ratio]) -> list[str]:
    """What the figures say, in words; where AT wins it is said, and a tie is called a tie."""
    last = _settings(measured)[-1]
    shown = {last, PROCESSOR} if measured.load.busy else {last}
    precisions = dict.fromkeys(result.entry.precision for result in measured.alive)
    return [
        *[_fastest(measured, precision) for precision in precisions],
        *[_sentence(pair) for pair in pairs if pair.threads in shown],
        *_batches(measured),
    ]


def _fastest(measured: Measured, precision: str) -> str:
    rivals = [result for result in measured.alive if result.entry.precision == precision]
    first, *rest = sorted(rivals, key=lambda result: latency(best_seconds(result)).mean)
    ms = latency(best_seconds(first)).mean
    words = f"One sentence at a time, {precision}: fastest is {first.label} with {ms:.1f} ms"
    for second in rest[:1]:
        lead = ratio(best_seconds(second), best_seconds(first))
        behind = f"{second.label} ({_times(lead)} of its time)"
        words += f", in a tie with {behind}" if lead.low <= 1 else f", ahead of {behind}"
    return words + "."


def _sentence(pair: Ratio) -> str:
    special = {BEST: "each at its best thread count", PROCESSOR: "processor time of one thread"}
    how = special.get(pair.threads, f"{pair.threads} thread(s)")
    if pair.tie:
        return f"Tie: {pair.label} and {pair.baseline} ({how}): {_times(pair.value)}."
    if pair.value.estimate > 1:
        return f"{pair.label} is {_times(pair.value)} as fast as {pair.baseline} ({how})."
    back = Interval(1 / pair.value.estimate, 1 / pair.value.high, 1 / pair.value.low)
    winner = SYSTEMS[BASELINE].label
    return f"{winner} wins: {pair.baseline} is {_times(back)} as fast as {pair.label} ({how})."


def _batches(measured: Measured) -> list[str]:
    number = len(measured.plan.batched)
    rates = {result.label: fastest_batch(result, number) for result in measured.alive}
    if not any(rate for _, _, rate in rates.values()):
        return []
    (first, (threads, size, rate)), *rest = sorted(rates.items(), key=lambda item: -item[1][2])
    other = f"; next is {rest[0][0]} with {rest[0][1][2]:.1f}" if rest else ""
    batch = f"batches of {size}, {threads} thread(s)"
    return [f"Best batch: {first} has the highest throughput, {rate:.1f} sentences/s ({batch}){other}."]


def costs(measured: Measured, judge: Judge) -> list[str]:
    """What int8 and the shortlist cost in BLEU: each entry beside itself in fp32, and with all words."""
    texts = {result.entry: tuple(outcome.text for outcome in result.outcomes) for result in measured.alive}
    lines = []
    for entry, own in texts.items():
        for name, exact in (
            ("fp32", replace(entry, precision="fp32")),
            ("all words", replace(entry, shortlist="")),
        ):
            if exact != entry and exact in texts:
                change = judge.difference(own, texts[exact])
                lines.append(f"BLEU of {entry.label} against {name}: {change}.")
    return lines


def _times(value: Interval) -> str:
    return f"{value.estimate:.2f} times [{value.low:.2f}, {value.high:.2f}]"
