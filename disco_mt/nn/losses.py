"""What an objective returns, and the two loss terms that objectives share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from disco_mt.core.batch import Batch
from disco_mt.core.special_tokens import PAD
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.cross_entropy import OutputLayer, SoftTargets, linear_cross_entropy
from disco_mt.nn.encoder import Encoded


@dataclass(frozen=True)
class Losses:
    """Sums over a batch. The trainer divides by the words of the whole update."""

    total: Tensor  # scalar with gradient
    parts: dict[str, Tensor]  # detached sums by name, for the log
    words: int  # predicted words

    def __add__(self, other: Losses) -> Losses:
        """The sum of two losses over the same words."""
        names = [*self.parts, *(name for name in other.parts if name not in self.parts)]
        zero = self.total.new_zeros(())
        parts = {name: self.parts.get(name, zero) + other.parts.get(name, zero) for name in names}
        return Losses(self.total + other.total, parts, self.words)

    def joined(self, other: Losses) -> Losses:
        """The sum of two losses over different words of the same batch."""
        summed = self + other
        return Losses(summed.total, summed.parts, self.words + other.words)


class Objective(Protocol):
    """key: mixes seed and step; with the sentence ids of the batch it determines all randomness."""

    def __call__(self, model: TranslationModel, batch: Batch, key: int) -> Losses: ...


def word_loss(
    model: TranslationModel,
    hidden: Tensor,
    target: Tensor,
    predicted: Tensor,
    smoothing: float,
    soft: SoftTargets | None = None,
) -> Losses:
    """Label-smoothed NLL of the target where `predicted` is True. hidden: (batch, tgt, width).

    soft: a teacher's distribution for the same words, in the same order.
    """
    output = OutputLayer(model.output.weight, model.output_bias, model.loss_by_mkl)
    loss, nll = linear_cross_entropy(hidden[predicted], output, target[predicted], smoothing, soft)
    return Losses(loss, {"nll": nll.detach()}, int(predicted.sum()))


def length_loss(encoded: Encoded, target: Tensor) -> Tensor:
    """NLL of the true lengths (with EOS), summed over sentences, without smoothing."""
    if encoded.length_log_probs is None:
        raise TypeError("this model has no length predictor")
    lengths = (target != PAD).sum(dim=1)
    most = encoded.length_log_probs.shape[1] - 1
    return -encoded.length_log_probs.gather(1, lengths.clamp(max=most)[:, None]).sum()


def with_length(losses: Losses, encoded: Encoded, target: Tensor) -> Losses:
    length = length_loss(encoded, target)
    parts = {**losses.parts, "length": length.detach()}
    return Losses(losses.total + length, parts, losses.words)
