"""Objectives for DisCo models, which differ in the visibility mask (Sections 2.1, 2.5 and 5.1)."""

from __future__ import annotations

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.core.batch import Batch
from disco_mt.core.counter_rng import mix, sentence_keys, uniform
from disco_mt.nn.cross_entropy import SoftTargets
from disco_mt.nn.encoder import Encoded
from disco_mt.nn.losses import Losses, with_length, word_loss
from disco_mt.nn.objective import Learning
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.disco.model import DisCo


def disco(model: DisCo, batch: Batch, key: int, learning: Learning) -> Losses:
    """The DisCo objective (Section 2.1): Y_obs^n ~ RS(Y without Y_n), drawn for every position and step."""
    words, eos = context.words_and_eos(batch.target)
    visible = context.random(sentence_keys(key, batch.sentence), words, eos)
    return visible_loss(model, batch, visible, learning)


def left_to_right(model: DisCo, batch: Batch, key: int, learning: Learning) -> Losses:
    """Autoregressive DisCo (Section 2.5): Y_obs^n = Y_{<n}. EOS is not predicted: the length is given."""
    visible = context.left_to_right(*context.words_and_eos(batch.target))
    return visible_loss(model, batch, visible, learning)


def permutation(model: DisCo, batch: Batch, key: int, learning: Learning) -> Losses:
    """XLNet's objective (Section 2.5): Y_obs^n = {Y_i | z(i) < z(n)}, one random order z per sentence."""
    words, eos = context.words_and_eos(batch.target)
    visible = context.permutation(sentence_keys(key, batch.sentence), words, eos)
    return visible_loss(model, batch, visible, learning)


def cloze(model: DisCo, batch: Batch, key: int, learning: Learning) -> Losses:
    """The cloze objective (Section 2.5): Y_obs^n = Y_{!=n}."""
    visible = context.all_but_itself(*context.words_and_eos(batch.target))
    return visible_loss(model, batch, visible, learning)


def easy_first(model: DisCo, batch: Batch, key: int, learning: Learning) -> Losses:
    """Easy-first training (Section 5.1): two passes as in inference, their losses summed.

    The order of P(reference word | X) in the first pass determines the visibility in the second. Gradients
    flow through both passes, but not through the order; the length loss counts once.
    """
    words, eos = context.words_and_eos(batch.target)
    encoded = model.encode(batch.source, batch.memory)
    first = model.decode(batch.target, context.nothing(words, eos), encoded)
    with torch.no_grad():
        log_probs = model.word_log_probs(first[words], batch.target[words])
        easiness = torch.zeros(words.shape, device=words.device).masked_scatter(words, log_probs.float())
    visible = context.by_order(context.easy_first_order(easiness, words), words, eos)
    second = model.decode(batch.target, visible, encoded)
    losses = [word_loss(model, hidden, batch.target, words, learning.smoothing) for hidden in (first, second)]
    return with_length(losses[0] + losses[1], encoded, batch.target)


def mixture(model: DisCo, batch: Batch, key: int, learning: Learning) -> Losses:
    """One model for all uses: each sentence draws its kind of context: random, left to right, or a prefix.

    The expected loss is the weighted sum of these objectives, at the cost of one. For left-to-right sentences
    of a converted model, the target can include the teacher's distribution: one teacher-forced pass of its
    decoder, which shares the frozen encoder.
    """
    options = learning.options
    words, eos = context.words_and_eos(batch.target)
    draw = uniform(sentence_keys(mix(key, 1), batch.sentence), 1)[:, :, None]  # (batch, 1, 1)
    ordered = draw < options.left_to_right_share
    visible = torch.where(
        ordered,
        context.left_to_right(words, eos),
        context.random(sentence_keys(key, batch.sentence), words, eos),
    )
    if options.prefix_share:
        after_prefix = ~ordered & (draw < options.left_to_right_share + options.prefix_share)
        keys = sentence_keys(mix(key, 2), batch.sentence)
        visible = torch.where(after_prefix, context.prefix(keys, words, eos), visible)
    hidden, encoded = _hidden_and_encoded(model, batch, visible)
    if learning.teacher is None or not options.teacher_weight or not ordered.any():
        losses = word_loss(model, hidden, batch.target, words, learning.smoothing)
    else:
        taught = ordered[:, :, 0] & words
        soft = _soft_targets(learning, batch, ordered[:, 0, 0])
        losses = word_loss(model, hidden, batch.target, taught, learning.smoothing, soft).joined(
            word_loss(model, hidden, batch.target, words & ~taught, learning.smoothing)
        )
    return with_length(losses, encoded, batch.target)


def visible_loss(model: DisCo, batch: Batch, visible: Tensor, learning: Learning) -> Losses:
    """Label-smoothed NLL of all words, plus the length loss. visible: (batch, tgt, tgt)."""
    words, _ = context.words_and_eos(batch.target)
    hidden, encoded = _hidden_and_encoded(model, batch, visible)
    losses = word_loss(model, hidden, batch.target, words, learning.smoothing)
    return with_length(losses, encoded, batch.target)


def _hidden_and_encoded(model: DisCo, batch: Batch, visible: Tensor) -> tuple[Tensor, Encoded]:
    encoded = model.encode(batch.source, batch.memory)
    return model.decode(batch.target, visible, encoded), encoded


@torch.no_grad()
def _soft_targets(learning: Learning, batch: Batch, chosen: Tensor) -> SoftTargets:
    """The teacher's distribution for every word of the chosen sentences. chosen: (batch,) bool."""
    teacher = learning.teacher
    assert isinstance(teacher, Autoregressive)
    target = batch.target[chosen]
    memory = None if batch.memory is None else batch.memory[chosen]
    hidden = teacher.decode(target, teacher.encode(batch.source[chosen], memory))
    words, _ = context.words_and_eos(target)
    weight = learning.options.teacher_weight
    return SoftTargets(hidden[words], teacher.output.weight, teacher.output_bias, weight)
