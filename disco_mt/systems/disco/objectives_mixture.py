"""Contexts for every use of one DisCo: random, left to right (for reranking), and behind a prefix.

The teacher of a converted model can say more than one word about a left-to-right position: its whole
distribution there, from one teacher-forced pass of its decoder, which shares the frozen encoder.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.core.batch import Batch
from disco_mt.core.counter_rng import mix, sentence_keys, uniform
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.cross_entropy import SoftTargets
from disco_mt.nn.losses import Losses, with_length, word_loss
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.disco.objectives_visible import hidden_and_encoded


@dataclass(frozen=True)
class Mixture:
    """How sentences are shared out among the kinds of context; random ones have the rest."""

    left_to_right: float
    prefix: float = 0.0
    teacher: Autoregressive | None = None
    teacher_weight: float = 0.0  # of its distribution, in left-to-right sentences


def mixture(model: TranslationModel, batch: Batch, key: int, smoothing: float, shares: Mixture) -> Losses:
    """Each sentence has one kind of context, drawn by the shares.

    The expected loss is the weighted sum of the objectives, at the price of one.
    """
    words, eos = context.words_and_eos(batch.target)
    draw = uniform(sentence_keys(mix(key, 1), batch.sentence), 1)[:, :, None]  # (batch, 1, 1)
    ordered = draw < shares.left_to_right
    visible = torch.where(
        ordered,
        context.left_to_right(words, eos),
        context.random(sentence_keys(key, batch.sentence), words, eos),
    )
    if shares.prefix:
        behind = ~ordered & (draw < shares.left_to_right + shares.prefix)
        keys = sentence_keys(mix(key, 2), batch.sentence)
        visible = torch.where(behind, context.prefix(keys, words, eos), visible)
    hidden, encoded = hidden_and_encoded(model, batch, visible)
    if shares.teacher is None or not shares.teacher_weight or not ordered.any():
        losses = word_loss(model, hidden, batch.target, words, smoothing)
    else:
        first = ordered[:, :, 0] & words
        soft = _teacher_says(shares.teacher, batch, ordered[:, 0, 0], shares.teacher_weight)
        taught = word_loss(model, hidden, batch.target, first, smoothing, soft)
        losses = taught.together(word_loss(model, hidden, batch.target, words & ~first, smoothing))
    return with_length(losses, encoded, batch.target)


@torch.no_grad()
def _teacher_says(teacher: Autoregressive, batch: Batch, chosen: Tensor, share: float) -> SoftTargets:
    """The teacher's distribution at every word of the chosen sentences. chosen: (batch,) bool."""
    source, target = batch.source[chosen], batch.target[chosen]
    memory = None if batch.memory is None else batch.memory[chosen]
    hidden = teacher.decode(target, teacher.encode(source, memory))
    words, _ = context.words_and_eos(target)
    return SoftTargets(hidden[words], teacher.output.weight, teacher.output_bias, share)
