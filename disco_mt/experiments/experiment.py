"""What an experiment is: a name, the models it compares, and a function that makes its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from disco_mt.experiments.decode import Lab
from disco_mt.experiments.report import Report
from disco_mt.recipes.suite import Suite
from disco_mt.settings import at_least

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
    """batch-size, data-size: updates of each model; 0: as many as the suite gives its systems."""
    sentence: int = 0
    """example: number of the dev sentence, from 1; 0 takes the first that a first pass gets wrong."""

    def __post_init__(self) -> None:
        for name in ("samples", "repeats", "sentences"):
            at_least(name, getattr(self, name), 1)
        for name in ("steps", "sentence"):
            at_least(name, getattr(self, name), 0)

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
