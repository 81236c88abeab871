"""Figure 3: quality against the number of tokens per update, with the same number of updates.

The suite trains DisCo and the CMLM several times (`training.batch_tokens`); data_size.py uses the same table
and figure for parts of the training data.
"""

from __future__ import annotations

from dataclasses import dataclass

from disco_mt.core.errors import UserError
from disco_mt.experiments import paper
from disco_mt.experiments.decode import Decoding, Hypotheses, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.reporting.plots import Figure, Series
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number
from disco_mt.suites import roles
from disco_mt.suites.roles import Role, mask_predict
from disco_mt.suites.suite import Suite

DISCO, CMLM = "DisCo + Easy-First", "CMLM + Mask-Predict"
ROLES = {CMLM: roles.CMLM, DISCO: roles.DISCO}
DECODERS = {CMLM: mask_predict(10), DISCO: roles.EASY_FIRST}
Systems = dict[str, dict[int, str]]  # label -> size -> system, the smallest first


@dataclass(frozen=True)
class Sweep:
    """The test set, translated by models that were trained with several sizes."""

    lab: Lab
    unit: str  # of the sizes
    found: dict[str, dict[int, Hypotheses]]  # label -> size -> translations

    @property
    def sizes(self) -> list[int]:
        """From the smallest to the largest."""
        return list(self.found[DISCO])

    def ends(self, label: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Translations of the models with the smallest and the largest size."""
        by_size = self.found[label]
        return by_size[self.sizes[0]].texts, by_size[self.sizes[-1]].texts

    def table(self) -> Table:
        """One row per model, one column per size."""
        rows = [
            (label, *(number(self.lab.quality(each).bleu) for each in by_size.values()))
            for label, by_size in self.found.items()
        ]
        header = ("test BLEU", *(f"{size:,} {self.unit}" for size in self.sizes))
        note = "The paper gives no numbers for this: a picture (batch size) or a remark (data size)."
        return Table(f"Ours ({self.lab.suite.name})", header, tuple(rows), note)

    def figure(self, name: str, x_label: str) -> Figure:
        """BLEU over size."""
        series = tuple(
            Series(
                label,
                tuple(map(float, by_size)),
                tuple(self.lab.quality(each).bleu for each in by_size.values()),
            )
            for label, by_size in self.found.items()
        )
        title = f"Test BLEU against {x_label}, {self.lab.suite.name}"
        return Figure(name, title, x_label, "BLEU", series, logarithmic=True)

    def notes(self) -> tuple[str, ...]:
        """What such runs can and cannot show."""
        updates = ", ".join(f"{each:,}" for each in sorted({*self.lab.updates().values()}))
        return (
            f"Updates of each model: {updates}; decoding: length beam 5, T=10.",
            "One run per model: the intervals reflect the test set, not training with other seeds.",
        )


def sweep(lab: Lab, unit: str, systems: Systems) -> Sweep:
    """Translate the test set with every model."""
    found = {
        label: {
            size: lab.decode(Decoding(name, DECODERS[label]), "test")
            for size, name in sorted(by_size.items())
        }
        for label, by_size in systems.items()
    }
    return Sweep(lab, unit, found)


def check_sizes(suite: Suite, systems: Systems, what: str) -> Systems:
    """Refuse a suite that does not vary the size, or not in the same way for both models."""
    cmlm, disco = ({*systems[label]} for label in (CMLM, DISCO))
    if len(disco) < 2 or cmlm != disco:
        raise UserError(
            f"{suite.name} does not train DisCo and CMLM with the same several {what}; a suite that does is "
            "multi30k-sizes.en-de"
        )
    return systems


def with_role(suite: Suite, role: Role) -> list[str]:
    """All systems of a role, the one that other experiments use first."""
    first = roles.system_for(suite, role)
    return [first, *(name for name, system in suite.systems.items() if role.fits(system) and name != first)]


def _systems(suite: Suite) -> Systems:
    by_size = {
        label: {suite.system(name).recipe.training.batch_tokens: name for name in with_role(suite, role)}
        for label, role in ROLES.items()
    }
    return check_sizes(suite, by_size, "batch sizes")


def run(lab: Lab, options: Options) -> Report:
    """DisCo and CMLM with every batch size of the suite."""
    found = sweep(lab, "tokens", _systems(lab.suite))
    few, many = found.sizes[0], found.sizes[-1]
    verdict = lab.judge("test").gains_more(
        f"DisCo is more robust to smaller batches: it loses less from {many:,} to {few:,} tokens "
        "(Section 5.1)",
        found.ends(DISCO)[::-1],
        found.ends(CMLM)[::-1],
    )
    figure = found.figure("batch-size", "tokens per update")
    return Report((found.table(),), (verdict,), (figure,), found.notes())


EXPERIMENT = Experiment(
    "Batch size",
    paper.FIGURE_BATCH,
    lambda suite: [name for by_size in _systems(suite).values() for name in by_size.values()],
    run,
    plots=True,
)
