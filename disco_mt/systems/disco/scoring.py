"""Scores of given targets by a DisCo model, left to right or in both directions, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.decoding.reranking import TargetScores, placed
from disco_mt.nn.encoder import Encoded
from disco_mt.systems.disco.model import DisCo

Direction = Callable[[Tensor, Tensor], Tensor]
"""(words, eos) -> visibility."""


def directions(both: bool) -> Sequence[Direction]:
    """The directions in which targets are scored; a word's score is the mean over them."""
    return [context.left_to_right, context.right_to_left] if both else [context.left_to_right]


def score_targets(
    model: DisCo, target: Tensor, encoded: Encoded, both_directions: bool = False
) -> TargetScores:
    """log P of the words, and log P(N | X) for the length. target: (rows, tgt) with EOS."""
    words, eos = context.words_and_eos(target)
    assert encoded.length_log_probs is not None
    lengths = encoded.length_log_probs.gather(1, words.sum(dim=1, keepdim=True) + 1)[:, 0]  # class N + 1
    orders = directions(both_directions)
    visible = torch.cat([order(words, eos) for order in orders])
    rows = torch.arange(len(target), device=target.device).repeat(len(orders))
    hidden = model.decode(target[rows], visible, encoded.rows(rows))[words[rows]]
    log_probs = model.word_log_probs(hidden, target[words].repeat(len(orders)))
    mean = log_probs.view(len(orders), -1).mean(dim=0)
    return TargetScores(placed(mean, words), lengths, predicts_end=False)
