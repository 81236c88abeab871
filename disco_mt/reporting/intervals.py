"""Estimates with 95 % intervals, by the bootstrap over sentences.

A claim is an inequality. It holds if the whole interval is on its side of the threshold, fails if the whole
interval is on the other side, and is undecided otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Answer = Literal["yes", "no", "undecided"]


@dataclass(frozen=True)
class Interval:
    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"

    @property
    def unsigned(self) -> str:
        return f"{self.estimate:.2f} [{self.low:.2f}, {self.high:.2f}]"

    def above(self, threshold: float = 0.0) -> Answer:
        if self.low > threshold:
            return "yes"
        return "no" if self.high < threshold else "undecided"

    def below(self, threshold: float = 0.0) -> Answer:
        return Interval(-self.estimate, -self.high, -self.low).above(-threshold)


def bootstrap(
    statistic: Callable[[NDArray[np.int64]], float], sentences: int, samples: int = 1000, seed: int = 1
) -> Interval:
    """A statistic of the sentences (given by their indices) and its interval over resampled test sets."""
    generator = np.random.default_rng(seed)  # the same draws as paired_bootstrap makes
    drawn = [statistic(generator.integers(sentences, size=sentences)) for _ in range(samples)]
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return Interval(float(statistic(np.arange(sentences))), float(low), float(high))


def mean_difference(a: Sequence[float], b: Sequence[float], samples: int = 1000, seed: int = 1) -> Interval:
    """Mean of a minus mean of b, paired: steps, repetitions."""
    both = np.array([a, b], dtype=np.float64)

    def difference(sample: NDArray[np.int64]) -> float:
        means = both[:, sample].mean(1)
        return float(means[0] - means[1])

    return bootstrap(difference, len(a), samples, seed)


def correlation(a: Sequence[float], b: Sequence[float], samples: int = 1000, seed: int = 1) -> Interval:
    """Pearson's correlation over sentences; 0 where one side does not vary."""
    both = np.array([a, b], dtype=np.float64)

    def pearson(sample: NDArray[np.int64]) -> float:
        drawn: NDArray[Any] = both[:, sample]
        return float(np.corrcoef(drawn)[0, 1]) if drawn.std(1).all() else 0.0

    return bootstrap(pearson, len(a), samples, seed)
