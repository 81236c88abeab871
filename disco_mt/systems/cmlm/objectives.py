"""The CMLM objective: a uniform number of masked words from 1 to N, and a loss on masked words only."""

from __future__ import annotations

from torch import Tensor

from disco_mt import context
from disco_mt.core.batch import Batch
from disco_mt.core.counter_rng import integers, mix, sentence_keys, uniform
from disco_mt.core.special_tokens import MASK
from disco_mt.nn.losses import Losses, with_length, word_loss
from disco_mt.nn.objective import Learning
from disco_mt.systems.cmlm.model import CMLM


def cmlm(model: CMLM, batch: Batch, key: int, learning: Learning) -> Losses:
    """Y_mask ~ RS(Y) is predicted from X and the other words; `<mask>` tokens are visible."""
    words, eos = context.words_and_eos(batch.target)
    masked = random_masks(key, batch.sentence, words)
    encoded = model.encode(batch.source, batch.memory)
    visible = context.observed_set(words, eos)
    hidden = model.decode(batch.target.masked_fill(masked, MASK), visible, encoded)
    losses = word_loss(model, hidden, batch.target, masked, learning.smoothing)
    return with_length(losses, encoded, batch.target)


def random_masks(key: int, sentence: Tensor, words: Tensor) -> Tensor:
    """Random masks, keyed by sentence. words: (batch, tgt) bool -> (batch, tgt) bool."""
    number = (uniform(sentence_keys(mix(key, 1), sentence), 1) * words.sum(1, keepdim=True)).long() + 1
    draws = integers(sentence_keys(key, sentence), words.shape[1])
    return words & (context.ranks(draws, among=words) < number)
