"""Is a claim of the paper true here? Yes, no or undecided, by the paired bootstrap over sentences.

A claim is an inequality. It holds if the whole 95 % interval is on its side of the threshold, it fails if the
whole interval is on the other side, and is undecided otherwise. "Comparable": at most MARGIN BLEU below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from disco_mt.evaluation.quality import References, corpus_bleu, paired_bootstrap, sentence_statistics
from disco_mt.experiments.report import Answer, Verdict

MARGIN = 0.5  # BLEU that "comparable" and "retains performance" may cost
Texts = tuple[str, ...]


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"

    def above(self, threshold: float = 0.0) -> Answer:
        """Is it above the threshold?"""
        if self.low > threshold:
            return "yes"
        return "no" if self.high < threshold else "undecided"

    def below(self, threshold: float = 0.0) -> Answer:
        """Is it below the threshold?"""
        return Interval(-self.estimate, -self.high, -self.low).above(-threshold)


@dataclass(frozen=True)
class Judge:
    """Compares systems on one test set."""

    references: References
    language: str
    samples: int = 1000
    seed: int = 1
    _statistics: dict[Texts, NDArray[np.int64]] = field(default_factory=dict)

    def difference(self, a: Texts, b: Texts) -> Interval:
        """BLEU of a minus BLEU of b."""
        found = paired_bootstrap(
            b, a, self.references, self.language, samples=self.samples, seed=self.seed
        )  # its differences are of the second to the first
        return Interval(found.difference, found.low, found.high)

    def better(self, claim: str, a: Texts, b: Texts) -> Verdict:
        """Claim: a has more BLEU than b."""
        found = self.difference(a, b)
        return Verdict(claim, found.above(), f"{found} BLEU")

    def comparable(self, claim: str, a: Texts, b: Texts, margin: float = MARGIN) -> Verdict:
        """Claim: a is at most `margin` BLEU below b."""
        found = self.difference(a, b)
        return Verdict(claim, found.above(-margin), f"{found} BLEU; at least -{margin:g} is asked for")

    def gain_difference(self, gained: tuple[Texts, Texts], other: tuple[Texts, Texts]) -> Interval:
        """How much more is gained from gained[0] to gained[1] than from other[0] to other[1], in BLEU."""
        systems = [gained[1], gained[0], other[1], other[0]]
        return self._contrast(systems, (1, -1, -1, 1))

    def gains_more(self, claim: str, gained: tuple[Texts, Texts], other: tuple[Texts, Texts]) -> Verdict:
        """Claim: the first pair (before, after) gains more than the second."""
        found = self.gain_difference(gained, other)
        return Verdict(claim, found.above(), f"difference of the gains {found} BLEU")

    def _contrast(self, systems: Sequence[Texts], weights: Sequence[float]) -> Interval:
        """A weighted sum of BLEU scores; all systems are scored on the same resampled test sets."""
        rows = np.stack([self._counted(texts) for texts in systems])  # (system, sentence, 10)

        def weighted(sample: NDArray[np.int64]) -> float:
            sums = rows[:, sample].sum(1)
            return sum(w * corpus_bleu(s) for w, s in zip(weights, sums, strict=True))

        return bootstrap(weighted, rows.shape[1], self.samples, self.seed)

    def _counted(self, texts: Texts) -> NDArray[np.int64]:
        if texts not in self._statistics:
            self._statistics[texts] = sentence_statistics(texts, self.references, self.language)
        return self._statistics[texts]


def bootstrap(
    statistic: Callable[[NDArray[np.int64]], float], sentences: int, samples: int = 1000, seed: int = 1
) -> Interval:
    """A statistic of the sentences (given by their places) and its interval over resampled test sets."""
    generator = np.random.default_rng(seed)  # the same draws as paired_bootstrap makes
    drawn = [statistic(generator.integers(sentences, size=sentences)) for _ in range(samples)]
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return Interval(float(statistic(np.arange(sentences))), float(low), float(high))


def mean_difference(a: Sequence[float], b: Sequence[float], samples: int = 1000, seed: int = 1) -> Interval:
    """Mean of a minus mean of b, paired: steps, repetitions."""
    both = np.array([a, b], dtype=np.float64)
    return bootstrap(lambda sample: _difference(both, sample), len(a), samples, seed)


def time_ratio(slow: Sequence[float], fast: Sequence[float], samples: int = 1000, seed: int = 1) -> Interval:
    """Total of `slow` over total of `fast`, sentence by sentence: a speedup."""
    both = np.array([slow, fast], dtype=np.float64)
    return bootstrap(lambda sample: _ratio(both, sample), len(slow), samples, seed)


def correlation(a: Sequence[float], b: Sequence[float], samples: int = 1000, seed: int = 1) -> Interval:
    """Pearson's correlation over sentences; 0 where one side does not vary."""
    both = np.array([a, b], dtype=np.float64)
    return bootstrap(lambda sample: _pearson(both[:, sample]), len(a), samples, seed)


def _difference(both: NDArray[np.float64], sample: NDArray[np.int64]) -> float:
    means = both[:, sample].mean(1)
    return float(means[0] - means[1])


def _ratio(both: NDArray[np.float64], sample: NDArray[np.int64]) -> float:
    totals = both[:, sample].sum(1)
    return float(totals[0] / totals[1])


def _pearson(both: NDArray[Any]) -> float:
    spread = both.std(1)
    return 0.0 if not spread.all() else float(np.corrcoef(both)[0, 1])
