"""How well a pin's tokens fit at every position: this decides where a pin without a position goes.

A DisCo model predicts each position from all others at once. So a draft is decoded without these pins, and at
each position the token of the pin is scored against the word of the draft. In a CMLM a position sees its own
word unless it is masked, so pins are scored with all words masked.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.decoding.length_beam import Candidates, predict
from disco_mt.nn.base import ParallelModel
from disco_mt.pins.pinned import TokenPin

DRAFT_PASSES = 4  # of easy-first, which needs about as many to converge


def fit(model: ParallelModel, candidates: Candidates, tokens: Tensor, widths: Tensor) -> Tensor:
    """Gain in log probability with a token at a position: (rows, tgt, tokens).

    tokens: (B, tokens) of the pins of each sentence, concatenated; widths: (B, tokens) length of the pin that
    each token belongs to; 0: padding.
    """
    sentence = candidates.words.nonzero()[:, 0] // candidates.beam  # of every word
    wanted, widths = tokens[sentence], widths[sentence]  # (words, tokens)
    table = torch.zeros(*candidates.words.shape, tokens.shape[1], dtype=torch.double, device=tokens.device)
    if model.sees_masks:
        visible = context.observed_set(candidates.words, candidates.eos)
        hidden = model.decode(candidates.blank(), visible, candidates.encoded)[candidates.words]
        table[candidates.words] = model.word_log_probs(hidden, wanted).double()
        return table
    ids = draft(model, candidates)
    for width in sorted(set(widths.flatten().tolist()) - {0}):
        hidden = model.decode(ids, _apart(candidates, width), candidates.encoded)[candidates.words]
        compared = torch.cat([wanted, ids[candidates.words][:, None]], dim=1)
        log_probs = model.word_log_probs(hidden, compared).double()
        gain = log_probs[:, :-1] - log_probs[:, -1:]
        table[candidates.words] += gain.masked_fill(widths != width, 0.0)
    return table


def placing_passes(model: ParallelModel, sentences: Sequence[tuple[TokenPin, ...]]) -> list[int]:
    """Passes that `fit` needs for each sentence."""
    widths = [{len(pin.tokens) for pin in pins if pin.at is None} for pins in sentences]
    if model.sees_masks:
        return [min(1, len(of_sentence)) for of_sentence in widths]
    return [DRAFT_PASSES + len(of_sentence) if of_sentence else 0 for of_sentence in widths]


def draft(model: ParallelModel, candidates: Candidates) -> Tensor:
    """The result of a few passes of easy-first: (rows, tgt)."""
    visible = context.observed_set(candidates.words & ~candidates.free, candidates.eos)
    now = predict(model, candidates, candidates.blank(), visible)
    visible = context.by_order(candidates.order(now.log_probs), candidates.words, candidates.eos)
    for _ in range(DRAFT_PASSES - 1):
        now = predict(model, candidates, now.ids, visible)
    return now.ids


def _apart(candidates: Candidates, width: int) -> Tensor:
    """Every position sees only words at least `width` away, none that a pin of that width would replace."""
    place = torch.arange(candidates.words.shape[1], device=candidates.words.device)
    far = (place[:, None] - place).abs() >= width
    return (candidates.words[:, None, :] & far) | candidates.eos[:, None, :]
