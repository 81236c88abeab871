"""What an experiment is: a name, the models it compares, and a function that makes its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Literal

from disco_mt.core.settings import at_least
from disco_mt.experiments.decode import Lab
from disco_mt.reporting.reports import Report
from disco_mt.suites.suite import Suite

Scale = Literal["desk", "paper"]


@dataclass(frozen=True)
class Options:
    """How an experiment is run."""

    scale: Scale = "desk"
    """desk: a suite that two cores train in a night; paper: the paper's corpora and sizes."""
    samples: int = 1000
    """Resampled test sets of the paired bootstrap."""
    repeats: int = 5
    """speed, two-readers: how often each system translates the timed sentences."""
    sentences: int = 100
    """speed, two-readers: how many test sentences are timed, evenly spread over the test set."""
    steps: int = 0
    """batch-size, data-size: updates of each model; 0: 20,000, or at the paper's scale its 300,000."""
    sentence: int = 0
    """example: number of the dev sentence, from 1; 0 takes the first that a first pass gets wrong."""

    def __post_init__(self) -> None:
        for name in ("samples", "repeats", "sentences"):
            at_least(name, getattr(self, name), 1)
        for name in ("steps", "sentence"):
            at_least(name, getattr(self, name), 0)

    @property
    def updates(self) -> int:
        """How long models are trained that an experiment makes: all the same."""
        return self.steps or (20_000 if self.scale == "desk" else 300_000)

    def changed(self) -> list[str]:
        """As they are typed; what has its default is left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        differ = [name for name in values if values[name] != getattr(Options(), name)]
        return [word for name in differ for word in (f"--{name}", str(values[name]))]

    @property
    def paper_bleu(self) -> bool:
        """Add the paper's tokenised BLEU where the paper's corpora are used."""
        return self.scale == "paper"


@dataclass(frozen=True)
class Experiment:
    """One table or figure."""

    title: str
    needs: Callable[[Suite], list[str]]  # systems whose models must be there
    run: Callable[[Lab, Options, str], Report]  # the string is the command, for the report
    paper_suites: tuple[str, ...]  # what --scale paper runs
    plots: bool = False


def run_experiment(experiment: Experiment, lab: Lab, options: Options, command: str) -> Report:
    """The report, with what was chosen on dev and how intervals were found."""
    report = experiment.run(lab, options, command)
    choices = "; ".join(f"{name} {value}" for name, value in sorted(lab.choices.items()))
    chosen = [f"Chosen on dev: {choices}."] if choices else []
    interval = (
        f"Intervals are 95 %, by the paired bootstrap over sentences ({options.samples:,} resampled sets). "
        "Yes and no mean that all of the interval is on one side."
    )
    return replace(report, notes=(*report.notes, *chosen, interval))
