"""Length prediction. Class n is a target of n tokens, with EOS; class 0 is impossible.

The paper's predictor is a slot in front of the source, which attends to all of it. A converted model must not
change its encoder, so its predictor uses the mean of the encoder's output. Both may start from a prior: the
distribution of target lengths given only the source length.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from disco_mt.nn.config import Length, ModelConfig
from disco_mt.nn.layers import ACTIVATIONS

FURTHEST = 32  # the pooled predictor changes the expected length by at most this many tokens


class LengthPredictor(nn.Module):
    """One tied table: row 0 is the input vector of the slot, and all rows score lengths."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, width))

    def slot(self, batch: int) -> Tensor:
        """The vector in front of the source words, without a position: (batch, 1, width)."""
        return self.weight[0].expand(batch, 1, -1)

    def log_probs(self, slot: Tensor, prior: Tensor | None = None) -> Tensor:
        """slot: (batch, width), the encoder's output; prior: scores to add -> (batch, classes)."""
        scores = slot @ self.weight.T
        return length_log_probs(scores if prior is None else scores + prior)


class PooledLength(nn.Module):
    """Scores differences from the expected length, given the mean of the encoder's output.

    Differences rather than lengths, so that it generalizes from short to long sentences.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.up = nn.Linear(config.width, config.width)
        self.activation = ACTIVATIONS[config.activation]()
        self.shift = nn.Linear(config.width, 2 * FURTHEST + 1)

    def log_probs(self, memory: Tensor, real: Tensor) -> Tensor:
        """memory: (batch, src, width), the encoder's output; real: (batch, src) bool -> (batch, classes)."""
        tokens = real.sum(dim=1)
        pooled = (memory * real[..., None]).sum(dim=1) / tokens[:, None]
        shifts = self.shift(self.activation(self.up(pooled)))
        classes = self.config.length_classes
        places = shift_places(self.config.length, tokens, classes)
        scores = length_prior(self.config.length, tokens, classes) + shifts.gather(1, places)
        return length_log_probs(scores)


def length_prior(length: Length, source: Tensor, classes: int) -> Tensor:
    """Scores of lengths given the number of source tokens, with EOS: (batch,) -> (batch, classes)."""
    expected, spread = _expected(length, source), length.spread + length.spread_slope * source
    return -(torch.arange(classes, device=source.device) - expected[:, None]).abs() / spread[:, None]


def shift_places(length: Length, source: Tensor, classes: int) -> Tensor:
    """The index of each class's difference from the expected length: (batch,) -> (batch, classes)."""
    expected = _expected(length, source).round().long()
    away = torch.arange(classes, device=source.device) - expected[:, None]
    return away.clamp(-FURTHEST, FURTHEST) + FURTHEST


def length_log_probs(scores: Tensor) -> Tensor:
    """Log-softmax without class 0: (batch, classes) -> (batch, classes)."""
    impossible = torch.arange(scores.shape[1], device=scores.device) == 0
    kind = torch.promote_types(scores.dtype, torch.float32)  # half under autocast
    return scores.masked_fill(impossible, -torch.inf).log_softmax(dim=1, dtype=kind)


def _expected(length: Length, source: Tensor) -> Tensor:
    return length.slope * source + length.offset
