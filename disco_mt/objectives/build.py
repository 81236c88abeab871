"""An objective from its options: the one place that knows all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from disco_mt.errors import UserError
from disco_mt.objectives.autoregressive import autoregressive
from disco_mt.objectives.cloze import cloze
from disco_mt.objectives.cmlm import cmlm
from disco_mt.objectives.disco import disco
from disco_mt.objectives.easy_first import easy_first
from disco_mt.objectives.left_to_right import left_to_right
from disco_mt.objectives.losses import Objective
from disco_mt.objectives.mixture import mixture
from disco_mt.objectives.permutation import permutation

OBJECTIVES: dict[str, tuple[str, ...]] = {
    "disco": ("disco", "left-to-right", "permutation", "cloze", "easy-first", "mixture"),
    "cmlm": ("cmlm",),
    "autoregressive": ("autoregressive",),
}
"""Objectives by kind of model; the first is the kind's default."""


@dataclass(frozen=True)
class ObjectiveOptions:
    """What a model learns."""

    name: str = ""
    """disco, left-to-right, permutation, cloze, easy-first, mixture (disco models), cmlm, autoregressive;
    empty: the default of the model's kind."""
    label_smoothing: float = 0.1
    left_to_right_share: float = 0.5
    """mixture only: the share of sentences that are trained left to right."""

    def __post_init__(self) -> None:
        for field in ("label_smoothing", "left_to_right_share"):
            if not 0 <= getattr(self, field) <= 1:
                raise UserError(f"objective.{field} must be between 0 and 1, got {getattr(self, field)}")


def build_objective(kind: str, options: ObjectiveOptions) -> Objective:
    """The objective for a kind of model, or a refusal that lists those that fit."""
    name = options.name or OBJECTIVES[kind][0]
    if name not in OBJECTIVES[kind]:
        fitting = ", ".join(OBJECTIVES[kind])
        raise UserError(f"objective.name {name!r} does not fit a model of kind {kind}; there are: {fitting}")
    if name == "mixture":
        return partial(mixture, smoothing=options.label_smoothing, share=options.left_to_right_share)
    plain = {
        "disco": disco,
        "left-to-right": left_to_right,
        "permutation": permutation,
        "cloze": cloze,
        "easy-first": easy_first,
        "cmlm": cmlm,
        "autoregressive": autoregressive,
    }
    return partial(plain[name], smoothing=options.label_smoothing)
