"""An objective from its options: the one place that knows all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from disco_mt.batch import Batch
from disco_mt.errors import UserError
from disco_mt.models.base import TranslationModel
from disco_mt.objectives.autoregressive import autoregressive
from disco_mt.objectives.cloze import cloze
from disco_mt.objectives.cmlm import cmlm
from disco_mt.objectives.disco import disco
from disco_mt.objectives.easy_first import easy_first
from disco_mt.objectives.left_to_right import left_to_right
from disco_mt.objectives.losses import Losses, Objective
from disco_mt.objectives.mixture import mixture
from disco_mt.objectives.permutation import permutation


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


Learn = Callable[[TranslationModel, Batch, int, ObjectiveOptions], Losses]

OBJECTIVES: dict[str, dict[str, Learn]] = {
    "disco": {
        "disco": lambda model, batch, key, o: disco(model, batch, key, o.label_smoothing),
        "left-to-right": lambda model, batch, key, o: left_to_right(model, batch, key, o.label_smoothing),
        "permutation": lambda model, batch, key, o: permutation(model, batch, key, o.label_smoothing),
        "cloze": lambda model, batch, key, o: cloze(model, batch, key, o.label_smoothing),
        "easy-first": lambda model, batch, key, o: easy_first(model, batch, key, o.label_smoothing),
        "mixture": lambda model, batch, key, o: mixture(
            model, batch, key, o.label_smoothing, o.left_to_right_share
        ),
    },
    "cmlm": {"cmlm": lambda model, batch, key, o: cmlm(model, batch, key, o.label_smoothing)},
    "autoregressive": {
        "autoregressive": lambda model, batch, key, o: autoregressive(model, batch, key, o.label_smoothing)
    },
}
"""Objectives by kind of model: a line each; the first is the kind's default."""


def build_objective(kind: str, options: ObjectiveOptions) -> Objective:
    """The objective for a kind of model, or a refusal that lists those that fit."""
    fitting = OBJECTIVES[kind]
    name = options.name or next(iter(fitting))
    if name not in fitting:
        listed = ", ".join(fitting)
        raise UserError(f"objective.name {name!r} does not fit a model of kind {kind}; there are: {listed}")
    learn = fitting[name]
    return lambda model, batch, key: learn(model, batch, key, options)
