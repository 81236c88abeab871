"""The cloze objective on a DisCo (Section 2.5): Y_obs^n = Y_{!=n}."""

from __future__ import annotations

from disco_mt import context
from disco_mt.core.batch import Batch
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.losses import Losses
from disco_mt.systems.disco.objectives_visible import visible_loss


def cloze(model: TranslationModel, batch: Batch, key: int, smoothing: float) -> Losses:
    """Every word from all the others; nothing is random."""
    visible = context.all_but_itself(*context.words_and_eos(batch.target))
    return visible_loss(model, batch, visible, smoothing)
