"""An autoregressive DisCo (Section 2.5): Y_obs^n = Y_{<n}. It cannot emit EOS: it is read at a length."""

from __future__ import annotations

from disco_mt import context
from disco_mt.core.batch import Batch
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.losses import Losses
from disco_mt.systems.disco.objectives_visible import visible_loss


def left_to_right(model: TranslationModel, batch: Batch, key: int, smoothing: float) -> Losses:
    """Every word from the words before it; nothing is random."""
    visible = context.left_to_right(*context.words_and_eos(batch.target))
    return visible_loss(model, batch, visible, smoothing)
