"""How times grow with size, and sentences grouped by length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from disco_mt.reporting.intervals import Interval


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
