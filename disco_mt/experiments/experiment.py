"""What an experiment is: a name, the models it compares, and a function that makes its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from disco_mt.core.settings import at_least
from disco_mt.experiments.decode import Lab
from disco_mt.reporting.reports import Report
from disco_mt.suites.suite import Suite

FEW_UPDATES = 1000  # models with fewer updates say nothing about the claims of a paper


@dataclass(frozen=True)
class Options:
    """How an experiment is run."""

    samples: int = 1000
    """Resampled test sets of the paired bootstrap."""
    repeats: int = 5
    """speed, reranking: how often each system translates the timed sentences."""
    sentences: int = 100
    """speed, reranking: how many test sentences are timed, evenly spread over the test set."""
    sentence: int = 0
    """example: number of the dev sentence, from 1; 0 takes the first that a first pass gets wrong."""

    def __post_init__(self) -> None:
        for name in ("samples", "repeats", "sentences"):
            at_least(name, getattr(self, name), 1)
        at_least("sentence", self.sentence, 0)

    def changed(self) -> list[str]:
        """As they are typed; what has its default is left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        differ = [name for name in values if values[name] != getattr(Options(), name)]
        return [word for name in differ for word in (f"--{name}", str(values[name]))]


@dataclass(frozen=True)
class Experiment:
    """One table or figure."""

    title: str
    source: str  # table, figure or section of the paper
    needs: Callable[[Suite], list[str]]  # systems whose models must be there
    run: Callable[[Lab, Options], Report]
    plots: bool = False
    inconsistencies: tuple[str, ...] = ()  # of the paper


def run_experiment(experiment: Experiment, lab: Lab, options: Options, command: str) -> Report:
    """The report, with what was chosen on dev and how intervals were found."""
    report = experiment.run(lab, options)
    notes = list(report.notes)
    if lab.choices:
        choices = "; ".join(f"{name} {value}" for name, value in sorted(lab.choices.items()))
        notes.append(f"Chosen on dev: {choices}.")
    short = [f"{name} {updates:,}" for name, updates in lab.updates().items() if updates < FEW_UPDATES]
    if report.verdicts and short:
        notes.append(
            f"No verdicts: models of fewer than {FEW_UPDATES:,} updates decide nothing ({', '.join(short)})."
        )
    elif report.verdicts:
        notes.append(
            f"Intervals are 95 %, by the paired bootstrap over sentences ({options.samples:,} resampled "
            "sets). Yes and no mean that the whole interval is on one side."
        )
    return replace(
        report,
        title=f"{experiment.title}: {lab.suite.name}",
        source=experiment.source,
        command=command,
        verdicts=() if short else report.verdicts,
        notes=tuple(notes),
        inconsistencies=experiment.inconsistencies,
    )
