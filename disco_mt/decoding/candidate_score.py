"""What a reader thinks of a candidate: the model that ranks what the same or another model has written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """Of one candidate; it does not hang on the weight of the length."""

    words: tuple[float, ...]  # log P(Y_n | Y_<n, X), or its mean with log P(Y_n | Y_>n, X)
    end: float  # log P(EOS | Y, X) of an autoregressive model, log P(N | X) of a DisCo model
    ends: bool  # does the reader predict EOS?

    def score(self, length_weight: float) -> float:
        """Mean log probability: over words and EOS, or (words + length_weight * log P(N | X)) / N."""
        if self.ends:
            return (sum(self.words) + self.end) / (len(self.words) + 1)
        if not self.words:
            return float("-inf")  # no DisCo model makes an empty sentence
        return (sum(self.words) + length_weight * self.end) / len(self.words)
