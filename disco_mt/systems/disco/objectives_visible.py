"""What the DisCo objectives share: given who sees whom, predict every word and the length."""

from __future__ import annotations

from torch import Tensor

from disco_mt import context
from disco_mt.core.batch import Batch
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.encoder import Encoded
from disco_mt.nn.losses import Losses, with_length, word_loss
from disco_mt.systems.disco.model import DisCo


def visible_loss(model: TranslationModel, batch: Batch, visible: Tensor, smoothing: float) -> Losses:
    """visible: (batch, tgt, tgt). Sum over all words of the smoothed NLL, plus the length's."""
    words, _ = context.words_and_eos(batch.target)
    hidden, encoded = hidden_and_encoded(model, batch, visible)
    return with_length(word_loss(model, hidden, batch.target, words, smoothing), encoded, batch.target)


def hidden_and_encoded(model: TranslationModel, batch: Batch, visible: Tensor) -> tuple[Tensor, Encoded]:
    """One pass of a DisCo over a batch."""
    if not isinstance(model, DisCo):
        raise TypeError(f"this objective trains disco models, not {model.config.kind}")
    encoded = model.encode(batch.source, batch.memory)
    return model.decode(batch.target, visible, encoded), encoded
