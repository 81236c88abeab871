"""Other rules of who sees whom from pass 2 on: those that the paper compares easy-first with (Section 5.2).

And beyond the paper several orders side by side: each makes other mistakes, so that a reader who ranks the
candidates of all (rescoring.py) finds a better one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.decoding.length_beam import Candidates
from disco_mt.decoding.refinement import Visibility, refine
from disco_mt.decoding.results import Hypothesis, OnPass
from disco_mt.pins.pinned import Pinned
from disco_mt.systems.disco.easy_first import by_confidence
from disco_mt.systems.disco.model import DisCo

JOINT = "+"
"""Between the names of orders that go side by side."""
THREE_ORDERS = JOINT.join(("easy-first", "left-to-right", "right-to-left"))
"""What gives a reader the most to choose from, as far as was tried (docs/results.md)."""


def _along(candidates: Candidates, direction: int) -> Tensor:
    """From the first word to the last (1) or back (-1); pinned words come before all, as in easy-first."""
    places = torch.arange(candidates.words.shape[1], device=candidates.words.device, dtype=torch.float)
    order = candidates.order((-direction * places).expand_as(candidates.words))
    return context.by_order(order, candidates.words, candidates.eos)


RULES: dict[str, Visibility] = {
    "easy-first": by_confidence,
    "left-to-right": lambda log_probs, candidates: _along(candidates, 1),
    "right-to-left": lambda log_probs, candidates: _along(candidates, -1),
    "all-but-itself": lambda log_probs, candidates: context.all_but_itself(candidates.words, candidates.eos),
}


def by_rule(
    model: DisCo,
    source: Tensor,
    rule: str,
    iterations: int,
    length_beam: int,
    trace: bool = False,
    pinned: Pinned | None = None,
    on_pass: OnPass[int] | None = None,
    length_penalty: float = 1.0,
    settle_all: bool = False,
) -> list[Hypothesis[int]]:
    """Algorithm 1 with other visibilities: every length once for each order that `rule` joins with +.

    Only orders are sure to converge: all-but-itself has cycles.
    """
    orders = [RULES[name] for name in rule.split(JOINT)]
    given = iterations, length_beam, trace, pinned, on_pass, length_penalty, settle_all
    return refine(model, source, _side_by_side(orders), rule, *given, copies=len(orders))


def _side_by_side(orders: Sequence[Visibility]) -> Visibility:
    """The first order for the first copy of a sentence's candidates, the second for the second, ..."""

    def visibility(log_probs: Tensor, candidates: Candidates) -> Tensor:
        every = torch.stack([order(log_probs, candidates) for order in orders])
        rows = torch.arange(len(log_probs), device=log_probs.device)
        number = rows % candidates.beam // (candidates.beam // len(orders))
        return every[number, rows]

    return visibility
