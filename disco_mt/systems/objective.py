"""An objective from its options: the one place that knows all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from disco_mt.core.batch import Batch
from disco_mt.core.errors import UserError
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.losses import Losses, Objective
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.autoregressive.objectives import autoregressive
from disco_mt.systems.cmlm.objectives import cmlm
from disco_mt.systems.disco.objectives_cloze import cloze
from disco_mt.systems.disco.objectives_disco import disco
from disco_mt.systems.disco.objectives_easy_first import easy_first
from disco_mt.systems.disco.objectives_left_to_right import left_to_right
from disco_mt.systems.disco.objectives_mixture import Mixture, mixture
from disco_mt.systems.disco.objectives_permutation import permutation


@dataclass(frozen=True)
class ObjectiveOptions:
    """What a model learns."""

    name: str = ""
    """disco, left-to-right, permutation, cloze, easy-first, mixture (disco models), cmlm, autoregressive;
    empty: the default of the model's kind."""
    label_smoothing: float = 0.1
    left_to_right_share: float = 0.5
    """mixture only: the share of sentences that are trained left to right."""
    prefix_share: float = 0.0
    """mixture only: the share of sentences that see a prefix and random words behind it; the rest sees random
    words alone."""
    teacher: str = ""
    """mixture only: an autoregressive model with the same tokenizers and the same encoder, whose distribution
    left-to-right sentences learn from."""
    teacher_weight: float = 0.0
    """mixture only: the weight of the teacher's distribution; the words themselves have the rest."""

    def __post_init__(self) -> None:
        for field in ("label_smoothing", "left_to_right_share", "prefix_share", "teacher_weight"):
            if not 0 <= getattr(self, field) <= 1:
                raise UserError(f"objective.{field} must be between 0 and 1, got {getattr(self, field)}")
        if self.name == "mixture" and self.left_to_right_share + self.prefix_share > 1:
            raise UserError(
                f"objective.left_to_right_share and objective.prefix_share must be 1 at most together, got "
                f"{self.left_to_right_share} and {self.prefix_share}"
            )
        if self.teacher_weight and not self.teacher:
            raise UserError("objective.teacher_weight needs objective.teacher, the model that it is for")


Teacher = Autoregressive | None
Learn = Callable[[TranslationModel, Batch, int, ObjectiveOptions, Teacher], Losses]

OBJECTIVES: dict[str, dict[str, Learn]] = {
    "disco": {
        "disco": lambda model, batch, key, o, _: disco(model, batch, key, o.label_smoothing),
        "left-to-right": lambda model, batch, key, o, _: left_to_right(model, batch, key, o.label_smoothing),
        "permutation": lambda model, batch, key, o, _: permutation(model, batch, key, o.label_smoothing),
        "cloze": lambda model, batch, key, o, _: cloze(model, batch, key, o.label_smoothing),
        "easy-first": lambda model, batch, key, o, _: easy_first(model, batch, key, o.label_smoothing),
        "mixture": lambda model, batch, key, o, teacher: mixture(
            model,
            batch,
            key,
            o.label_smoothing,
            Mixture(o.left_to_right_share, o.prefix_share, teacher, o.teacher_weight),
        ),
    },
    "cmlm": {"cmlm": lambda model, batch, key, o, _: cmlm(model, batch, key, o.label_smoothing)},
    "autoregressive": {
        "autoregressive": lambda model, batch, key, o, _: autoregressive(model, batch, key, o.label_smoothing)
    },
}
"""Objectives by kind of model: a line each; the first is the kind's default."""


def build_objective(kind: str, options: ObjectiveOptions, teacher: Teacher = None) -> Objective:
    """The objective for a kind of model, or a refusal that lists those that fit."""
    fitting = OBJECTIVES[kind]
    name = options.name or next(iter(fitting))
    if name not in fitting:
        listed = ", ".join(fitting)
        raise UserError(f"objective.name {name!r} does not fit a model of kind {kind}; there are: {listed}")
    learn = fitting[name]
    if options.teacher and name != "mixture":
        raise UserError(f"objective.teacher is for the objective mixture, not {name}; leave it out")
    return lambda model, batch, key: learn(model, batch, key, options, teacher)
