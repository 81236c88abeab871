"""Parallel easy-first (Section 3.2): each word is predicted from the words that were easier than it."""

from __future__ import annotations

from torch import Tensor

from disco_mt import context
from disco_mt.decoding.length_beam import Candidates
from disco_mt.decoding.refinement import refine
from disco_mt.decoding.results import Hypothesis, OnPass
from disco_mt.pins.pinned import Pinned
from disco_mt.systems.disco.model import DisCo


def easy_first(
    model: DisCo,
    source: Tensor,
    iterations: int,
    length_beam: int,
    trace: bool = False,
    pinned: Pinned | None = None,
    on_pass: OnPass[int] | None = None,
    length_penalty: float = 1.0,
    settle_all: bool = False,
) -> list[Hypothesis[int]]:
    """Algorithm 1. The order z is that of the first pass's probabilities and stays fixed.

    At the latest after N + 1 passes nothing changes any more: rank r depends on ranks below r only.
    Pinned words come first in the order, so that all others observe them.
    """
    given = iterations, length_beam, trace, pinned, on_pass, length_penalty, settle_all
    return refine(model, source, by_confidence, "easy-first", *given)


def by_confidence(log_probs: Tensor, candidates: Candidates) -> Tensor:
    """The easier ones, as sure as the first pass was of them."""
    return context.by_order(candidates.order(log_probs), candidates.words, candidates.eos)
