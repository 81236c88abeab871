"""Which trained models an experiment asks for: by what they are, because a suite's names are its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodingOptions
from disco_mt.suites.suite import DataKind, Suite, System
from disco_mt.systems.objective import objective_for


@dataclass(frozen=True)
class Role:
    """A kind of model, its objective, and its training data."""

    kind: str
    data: tuple[DataKind, ...]  # one of these kinds
    objective: str
    contextless: bool = False

    def fits(self, system: System) -> bool:
        """Does this system play the role?"""
        return system.data_kind in self.data and self.fits_model(system)

    def fits_model(self, system: System) -> bool:
        """Is it such a model with such an objective, whatever its data?"""
        model = system.recipe.model
        objective = objective_for(model.kind, system.recipe.objective.name)
        return (self.kind, self.objective, self.contextless) == (model.kind, objective, model.contextless)

    def __str__(self) -> str:
        contextless = "contextless " if self.contextless else ""
        return (
            f"{contextless}{self.kind} model with objective {self.objective} on {' or '.join(self.data)} data"
        )


DISTILLED: tuple[DataKind, ...] = ("distilled",)
AT_RAW = Role("autoregressive", ("raw",), "autoregressive")
AT = replace(AT_RAW, data=DISTILLED)
CONTEXTLESS_RAW, CONTEXTLESS = replace(AT_RAW, contextless=True), replace(AT, contextless=True)
CMLM_RAW = Role("cmlm", ("raw",), "cmlm")
CMLM = replace(CMLM_RAW, data=DISTILLED)
DISCO_RAW = Role("disco", ("raw",), "disco")
DISCO = replace(DISCO_RAW, data=DISTILLED)
SPLICED = replace(DISCO, data=("extended",))
EASY_FIRST_TRAINED = replace(DISCO, objective="easy-first")
MIXTURE = replace(DISCO, objective="mixture", data=("distilled", "extended"))

GREEDY = DecodingOptions(strategy="greedy", beam=1)
BEAM = DecodingOptions(strategy="beam", beam=5)
EASY_FIRST = DecodingOptions(strategy="easy-first", iterations=10)


def mask_predict(iterations: int) -> DecodingOptions:
    """Mask-predict in T passes, length beam 5."""
    return DecodingOptions(strategy="mask-predict", iterations=iterations)


def system_for(suite: Suite, role: Role) -> str:
    """The name of the first system of the suite that plays the role.

    A large teacher plays that of its base sister too; compared are systems of one size, so the sister goes
    first.
    """
    fitting = [name for name, system in suite.systems.items() if role.fits(system)]
    for name in sorted(fitting, key=lambda name: suite.distill is not None and name == suite.distill.teacher):
        return name
    raise UserError(
        f"the suite {suite.name} has no {role}; it has: {', '.join(suite.systems)}. Add a [systems.NAME] "
        "table"
    )


def teacher_of(suite: Suite) -> str:
    """Who translated the training data: at the paper's scale a larger model than the others."""
    return system_for(suite, AT_RAW) if suite.distill is None else suite.distill.teacher


def has(suite: Suite, role: Role) -> bool:
    """Is there such a system?"""
    return any(role.fits(system) for system in suite.systems.values())


def systems_for(suite: Suite, roles: Iterable[Role]) -> list[str]:
    """The names for several roles, each once."""
    return list(dict.fromkeys(system_for(suite, role) for role in roles))


def with_teacher(suite: Suite, roles: Iterable[Role]) -> list[str]:
    """The same, and the teacher."""
    return list(dict.fromkeys((*systems_for(suite, roles), teacher_of(suite))))
