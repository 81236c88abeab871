"""How long will the translation be? A class is a number of target tokens, EOS included; class 0 cannot be.

The paper's predictor is a slot in front of the source, which looks at all of it. A converted model must leave
its encoder as it was, so its predictor reads the mean of the encoder's states. Either may begin with a prior:
what the source's length alone says about the target's.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from disco_mt.nn.config import Length, ModelConfig
from disco_mt.nn.layers import ACTIVATIONS

FURTHEST = 32  # the pooled predictor moves the prior's expected length by at most so many tokens, either way


class LengthPredictor(nn.Module):
    """One table does both: its row 0 is the slot's input vector, and its rows score the lengths (tied)."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, width))

    def slot(self, batch: int) -> Tensor:
        """What is put in front of the source words, without a position: (batch, 1, width)."""
        return self.weight[0].expand(batch, 1, -1)

    def log_probs(self, slot: Tensor, prior: Tensor | None = None) -> Tensor:
        """slot: (batch, width), as the encoder left it; prior: scores to add -> (batch, classes)."""
        scores = slot @ self.weight.T
        return length_log_probs(scores if prior is None else scores + prior)


class PooledLength(nn.Module):
    """A correction of the prior, from the mean of the encoder's states: scores for differences from it.

    Differences, not lengths, are what it scores: what is learnt on short sentences holds for long ones.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.up = nn.Linear(config.width, config.width)
        self.activation = ACTIVATIONS[config.activation]()
        self.shift = nn.Linear(config.width, 2 * FURTHEST + 1)

    def log_probs(self, memory: Tensor, real: Tensor) -> Tensor:
        """memory: (batch, src, width), the encoder's states; real: (batch, src) bool -> (batch, classes)."""
        tokens = real.sum(dim=1)
        pooled = (memory * real[..., None]).sum(dim=1) / tokens[:, None]
        shifts = self.shift(self.activation(self.up(pooled)))
        classes = self.config.length_classes
        places = shift_places(self.config.length, tokens, classes)
        scores = length_prior(self.config.length, tokens, classes) + shifts.gather(1, places)
        return length_log_probs(scores)


def length_prior(length: Length, source: Tensor, classes: int) -> Tensor:
    """Scores of the lengths given the number of source tokens, EOS included: (batch,) -> (batch, classes)."""
    expected, spread = _expected(length, source), length.spread + length.spread_slope * source
    return -(torch.arange(classes, device=source.device) - expected[:, None]).abs() / spread[:, None]


def shift_places(length: Length, source: Tensor, classes: int) -> Tensor:
    """Which difference from the expected length each class is: (batch,) -> (batch, classes) from 0 on."""
    expected = _expected(length, source).round().long()
    away = torch.arange(classes, device=source.device) - expected[:, None]
    return away.clamp(-FURTHEST, FURTHEST) + FURTHEST


def length_log_probs(scores: Tensor) -> Tensor:
    """Scores of the classes, of which class 0 cannot be: (batch, classes) -> (batch, classes)."""
    impossible = torch.arange(scores.shape[1], device=scores.device) == 0
    kind = torch.promote_types(scores.dtype, torch.float32)  # autocast may have made it half
    return scores.masked_fill(impossible, -torch.inf).log_softmax(dim=1, dtype=kind)


def _expected(length: Length, source: Tensor) -> Tensor:
    return length.slope * source + length.offset
