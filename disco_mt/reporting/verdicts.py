"""Is a claim of the paper true here? Yes, no or undecided, by the paired bootstrap over sentences.

"Comparable": at most MARGIN BLEU below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from disco_mt.evaluation.quality import References, corpus_bleu, paired_bootstrap, sentence_statistics
from disco_mt.reporting.intervals import Answer, Interval, bootstrap

MARGIN = 0.5  # BLEU that "comparable" and "retains performance" may cost
Texts = tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    claim: str
    answer: Answer
    evidence: str


@dataclass(frozen=True)
class Judge:
    references: References
    language: str
    samples: int = 1000
    seed: int = 1
    _statistics: dict[Texts, NDArray[np.int64]] = field(default_factory=dict)

    def difference(self, a: Texts, b: Texts) -> Interval:
        """BLEU of a minus BLEU of b."""
        result = paired_bootstrap(
            b, a, self.references, self.language, samples=self.samples, seed=self.seed
        )  # its differences are of the second to the first
        return Interval(result.difference, result.low, result.high)

    def better(self, claim: str, a: Texts, b: Texts) -> Verdict:
        """Claim: a has more BLEU than b."""
        difference = self.difference(a, b)
        return Verdict(claim, difference.above(), f"{difference} BLEU")

    def comparable(self, claim: str, a: Texts, b: Texts, margin: float = MARGIN) -> Verdict:
        """Claim: a is at most `margin` BLEU below b."""
        difference = self.difference(a, b)
        evidence = f"{difference} BLEU; the claim needs at least -{margin:g}"
        return Verdict(claim, difference.above(-margin), evidence)

    def gain_difference(self, gained: tuple[Texts, Texts], other: tuple[Texts, Texts]) -> Interval:
        """How much more is gained from gained[0] to gained[1] than from other[0] to other[1], in BLEU."""
        systems = [gained[1], gained[0], other[1], other[0]]
        return self._contrast(systems, (1, -1, -1, 1))

    def gains_more(self, claim: str, gained: tuple[Texts, Texts], other: tuple[Texts, Texts]) -> Verdict:
        """Claim: the first pair (before, after) gains more than the second."""
        difference = self.gain_difference(gained, other)
        return Verdict(claim, difference.above(), f"difference of the gains {difference} BLEU")

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
