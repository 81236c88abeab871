"""The DisCo objective (Section 2.1): every word from a random subset of the others, all in one pass."""

from __future__ import annotations

from disco_mt import context
from disco_mt.core.batch import Batch
from disco_mt.core.counter_rng import sentence_keys
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.losses import Losses
from disco_mt.systems.disco.objectives_visible import visible_loss


def disco(model: TranslationModel, batch: Batch, key: int, smoothing: float) -> Losses:
    """Y_obs^n ~ RS(Y without Y_n), drawn for every position, sentence and step anew."""
    words, eos = context.words_and_eos(batch.target)
    visible = context.random(sentence_keys(key, batch.sentence), words, eos)
    return visible_loss(model, batch, visible, smoothing)
