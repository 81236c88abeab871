"""Easy-first training (Section 5.1): two passes as in inference, their losses summed."""

from __future__ import annotations

import torch

from disco_mt import context
from disco_mt.core.batch import Batch
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.losses import Losses, with_length, word_loss
from disco_mt.systems.disco.model import DisCo


def easy_first(model: TranslationModel, batch: Batch, key: int, smoothing: float) -> Losses:
    """P(Y_n | X) first; the order of P(reference word | X) then says who sees whom in the second pass.

    The order is a choice, not a function to learn through: it is detached. Gradients flow through both
    passes; the length loss counts once.
    """
    if not isinstance(model, DisCo):
        raise TypeError(f"this objective trains disco models, not {model.config.kind}")
    words, eos = context.words_and_eos(batch.target)
    encoded = model.encode(batch.source, batch.memory)
    first = model.decode(batch.target, context.nothing(words, eos), encoded)
    with torch.no_grad():
        log_probs = model.word_log_probs(first[words], batch.target[words])
        easiness = torch.zeros(words.shape, device=words.device).masked_scatter(words, log_probs.float())
    visible = context.by_order(context.easy_first_order(easiness, words), words, eos)
    second = model.decode(batch.target, visible, encoded)
    losses = [word_loss(model, hidden, batch.target, words, smoothing) for hidden in (first, second)]
    return with_length(losses[0] + losses[1], encoded, batch.target)
