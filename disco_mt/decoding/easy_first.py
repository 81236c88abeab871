"""Parallel easy-first (Section 3.2): each word is predicted from the words that were easier than it."""

from __future__ import annotations

from torch import Tensor

from disco_mt import context
from disco_mt.decoding.length_beam import Candidates
from disco_mt.decoding.refinement import refine
from disco_mt.decoding.translation import Hypothesis
from disco_mt.models.disco import DisCo


def easy_first(
    model: DisCo, source: Tensor, iterations: int, length_beam: int, trace: bool = False
) -> list[Hypothesis[int]]:
    """Algorithm 1. The order z is that of the first pass's probabilities and stays fixed.

    At the latest after N + 1 passes nothing changes any more: rank r depends on ranks below r only.
    """
    return refine(model, source, _by_confidence, "easy-first", iterations, length_beam, trace)


def _by_confidence(log_probs: Tensor, candidates: Candidates) -> Tensor:
    order = context.easy_first_order(log_probs, candidates.words)
    return context.by_order(order, candidates.words, candidates.eos)
