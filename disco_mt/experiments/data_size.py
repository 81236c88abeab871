"""DisCo against CMLM as data grows (Section 4.3): parts of the same distilled pairs, and all of them."""

from __future__ import annotations

from disco_mt.data.dataset import Dataset
from disco_mt.experiments.batch_size import CMLM, DISCO, ROLES, Systems, check_sizes, sweep
from disco_mt.experiments.decode import Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.reporting.reports import Report
from disco_mt.suites import roles
from disco_mt.suites.roles import Role
from disco_mt.suites.suite import Suite


def run(lab: Lab, options: Options) -> Report:
    """DisCo and CMLM on all distilled pairs, and on the parts that the suite has models of."""
    pairs = len(Dataset.open(lab.workspace.dataset("distilled")).splits["train"])
    systems = {
        label: {max(1, pairs // part): name for part, name in by_part.items()}
        for label, by_part in _systems(lab.suite).items()
    }
    found = sweep(lab, "pairs", systems)
    few, many = found.sizes[0], found.sizes[-1]
    verdict = lab.judge("test").gains_more(
        f"DisCo gains more than the CMLM as data grows, {few:,} to {many:,} pairs (Section 4.3)",
        found.ends(DISCO),
        found.ends(CMLM),
    )
    note = (
        "Parts are random, and each contains the smaller ones. All come from one teacher that saw all pairs; "
        "the paper compares different corpora with different teachers."
    )
    figure = found.figure("data-size", "training pairs")
    return Report((found.table(),), (verdict,), (figure,), (note, *found.notes()))


def _systems(suite: Suite) -> Systems:
    """By the part of the distilled pairs: 1 is all of them, 16 a sixteenth."""
    return check_sizes(
        suite, {label: _by_part(suite, role) for label, role in ROLES.items()}, "parts of the data"
    )


def _by_part(suite: Suite, role: Role) -> dict[int, str]:
    whole = roles.system_for(suite, role)
    parts = {
        int(system.data.partition("/")[2]): name
        for name, system in suite.systems.items()
        if system.data.startswith("distilled/") and role.fits_model(system)
    }
    return {1: whole} | parts


EXPERIMENT = Experiment(
    "Data size",
    "Section 4.3: DisCo's advantage is limited on small corpora and more pronounced on large ones",
    lambda suite: [name for by_part in _systems(suite).values() for name in by_part.values()],
    run,
    plots=True,
)
