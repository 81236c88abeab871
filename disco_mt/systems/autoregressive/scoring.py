"""Scores of given targets by an autoregressive model, in one teacher-forced pass."""

from __future__ import annotations

from torch import Tensor

from disco_mt import context
from disco_mt.decoding.reranking import TargetScores, placed
from disco_mt.nn.encoder import Encoded
from disco_mt.systems.autoregressive.model import Autoregressive


def score_targets(
    model: Autoregressive, target: Tensor, encoded: Encoded, both_directions: bool = False
) -> TargetScores:
    """log P of words and EOS, always left to right. target: (rows, tgt) with EOS."""
    words, eos = context.words_and_eos(target)
    hidden = model.decode(target, encoded)
    log_probs = placed(model.word_log_probs(hidden[words], target[words]), words)
    return TargetScores(log_probs, model.word_log_probs(hidden[eos], target[eos]), predicts_end=True)
