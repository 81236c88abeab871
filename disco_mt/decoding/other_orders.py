"""What the paper compares easy-first with (Section 5.2): other rules of who sees whom from pass 2 on."""

from __future__ import annotations

from torch import Tensor

from disco_mt import context
from disco_mt.decoding.refinement import Visibility, refine
from disco_mt.decoding.translation import Hypothesis, OnPass
from disco_mt.models.disco import DisCo

RULES: dict[str, Visibility] = {
    "left-to-right": lambda log_probs, candidates: context.left_to_right(candidates.words, candidates.eos),
    "right-to-left": lambda log_probs, candidates: context.right_to_left(candidates.words, candidates.eos),
    "all-but-itself": lambda log_probs, candidates: context.all_but_itself(candidates.words, candidates.eos),
}


def by_rule(
    model: DisCo,
    source: Tensor,
    rule: str,
    iterations: int,
    length_beam: int,
    trace: bool = False,
    on_pass: OnPass[int] | None = None,
    length_penalty: float = 1.0,
    settle_all: bool = False,
) -> list[Hypothesis[int]]:
    """Algorithm 1 with another visibility. Only orders are sure to converge: all-but-itself has cycles."""
    given = iterations, length_beam, trace, None, on_pass, length_penalty, settle_all
    return refine(model, source, RULES[rule], rule, *given)
