"""The objective of the autoregressive transformer: the next word, and EOS after the last."""

from __future__ import annotations

from disco_mt.core.batch import Batch
from disco_mt.core.special_tokens import PAD
from disco_mt.nn.losses import Losses, word_loss
from disco_mt.nn.objective import Learning
from disco_mt.systems.autoregressive.model import Autoregressive


def autoregressive(model: Autoregressive, batch: Batch, key: int, learning: Learning) -> Losses:
    """Teacher forcing; only dropout is random."""
    hidden = model.decode(batch.target, model.encode(batch.source, batch.memory))
    return word_loss(model, hidden, batch.target, batch.target != PAD, learning.smoothing)
