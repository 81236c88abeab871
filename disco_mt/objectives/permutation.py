"""XLNet's objective on a DisCo (Section 2.5): Y_obs^n = {Y_i | z(i) < z(n)} for a random order z."""

from __future__ import annotations

from disco_mt import context
from disco_mt.batch import Batch
from disco_mt.keyed import sentence_keys
from disco_mt.models.base import TranslationModel
from disco_mt.objectives.losses import Losses
from disco_mt.objectives.visible import visible_loss


def permutation(model: TranslationModel, batch: Batch, key: int, smoothing: float) -> Losses:
    """One order a sentence, drawn at every step anew."""
    words, eos = context.words_and_eos(batch.target)
    visible = context.permutation(sentence_keys(key, batch.sentence), words, eos)
    return visible_loss(model, batch, visible, smoothing)
