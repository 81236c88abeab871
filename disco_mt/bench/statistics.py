"""Percentiles, medians and ratios of times.

A time is known by repeat and sentence, and all systems took turns on the same sentences. So a ratio is
resampled over both: the interval knows of sentences that differ and of a machine that does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from disco_mt.experiments.judge import Interval

Seconds = Sequence[Sequence[float]]
"""[repeat][sentence]"""


@dataclass(frozen=True)
class Latency:
    """Milliseconds a sentence."""

    mean: float  # over sentences, of the medians over repeats
    low: float  # the quickest repeat
    high: float  # the slowest
    p50: float  # over all times
    p90: float
    p99: float


def latency(seconds: Seconds, places: Sequence[int] | None = None) -> Latency:
    """What one sentence costs; `places`: some of the sentences."""
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


def exponent(sizes: Sequence[float], times: Sequence[Sequence[float]], samples: int = 1000) -> Interval:
    """p of time ~ size ** p, by least squares on logarithms; times[repeat][size], resampled over repeats."""
    x, y = np.log(np.array(sizes)), np.array(times, dtype=np.float64)
    generator = np.random.default_rng(1)
    drawn = [_slope(x, y[generator.integers(len(y), size=len(y))]) for _ in range(samples)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(_slope(x, y), float(low), float(high))


def _slope(x: NDArray[Any], times: NDArray[Any]) -> float:
    return float(np.polyfit(x, np.log(np.median(times, axis=0)), 1)[0])


def groups(lengths: Sequence[int], most: int = 4) -> dict[str, list[int]]:
    """Places of the sentences by length: each length where there are few, quarters of the range otherwise."""
    known = sorted(set(lengths))
    if len(known) <= most:
        return {str(n): [place for place, length in enumerate(lengths) if length == n] for n in known}
    edges = sorted({int(edge) for edge in np.quantile(lengths, np.linspace(0, 1, most + 1))})
    found = {}
    for low, high in zip([edges[0] - 1, *edges[1:-1]], edges[1:], strict=True):
        found[f"{low + 1}-{high}"] = [p for p, length in enumerate(lengths) if low < length <= high]
    return found
