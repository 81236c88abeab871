"""One DisCo for two readers: random contexts for easy-first, left-to-right ones for scoring and reading."""

from __future__ import annotations

import torch

from disco_mt import context
from disco_mt.batch import Batch
from disco_mt.keyed import mix, sentence_keys, uniform
from disco_mt.models.base import TranslationModel
from disco_mt.objectives.losses import Losses
from disco_mt.objectives.visible import visible_loss


def mixture(model: TranslationModel, batch: Batch, key: int, smoothing: float, share: float) -> Losses:
    """Each sentence is trained left to right with probability `share`, else with random contexts.

    The expected loss is the weighted sum of the two objectives, at the price of one.
    """
    words, eos = context.words_and_eos(batch.target)
    drawn = context.random(sentence_keys(key, batch.sentence), words, eos)
    ordered = uniform(sentence_keys(mix(key, 1), batch.sentence), 1)[:, :, None] < share  # (batch, 1, 1)
    visible = torch.where(ordered, context.left_to_right(words, eos), drawn)
    return visible_loss(model, batch, visible, smoothing)
