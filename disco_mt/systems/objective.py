"""An objective from its options."""

from __future__ import annotations

from disco_mt.core.batch import Batch
from disco_mt.core.errors import UserError
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.losses import Losses, Objective
from disco_mt.nn.objective import Learning, ObjectiveOptions
from disco_mt.systems import system_for


def objective_for(kind: str, wanted: str) -> str:
    """The name of a system's objective (empty: its default), or an error that lists them."""
    objectives = system_for(kind).objectives
    name = wanted or next(iter(objectives))
    if name not in objectives:
        listed = ", ".join(objectives)
        raise UserError(f"objective.name {name!r} does not fit a model of kind {kind}; there are: {listed}")
    return name


def build_objective(
    kind: str, options: ObjectiveOptions, teacher: TranslationModel | None = None
) -> Objective:
    name = objective_for(kind, options.name)
    if options.teacher and name != "mixture":
        raise UserError(f"objective.teacher is for the objective mixture, not {name}; leave it out")
    learn = system_for(kind).objectives[name]
    learning = Learning(options, teacher)

    def objective(model: TranslationModel, batch: Batch, key: int) -> Losses:
        if model.config.kind != kind:
            raise TypeError(f"this objective trains {kind} models, not {model.config.kind}")
        return learn(model, batch, key, learning)

    return objective
