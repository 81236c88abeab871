"""Table 7: one DisCo decoded in several orders, on dev."""

from __future__ import annotations

from dataclasses import replace

from disco_mt.experiments import paper, systems
from disco_mt.experiments.decode import Decoding, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.experiments.steps_table import stepped_table
from disco_mt.reporting.intervals import mean_difference
from disco_mt.reporting.reports import Report
from disco_mt.reporting.verdicts import Verdict

STRATEGIES = {
    "Left-to-Right Order": "left-to-right",
    "Right-to-Left Order": "right-to-left",
    "All-But-Itself": "all-but-itself",
    "Parallel Easy-First": "easy-first",
    "Mask-Predict": "mask-predict",
}


def run(lab: Lab, options: Options, command: str) -> Report:
    """The same weights, five rules of who sees whom."""
    system = lab.system(systems.DISCO)
    found = {
        label: lab.decode(Decoding(system, replace(systems.EASY_FIRST, strategy=strategy)), "valid")
        for label, strategy in STRATEGIES.items()
    }
    judge, easy = lab.judge("valid"), found["Parallel Easy-First"]
    verdicts = []
    for label in STRATEGIES:
        if label == "Parallel Easy-First":
            continue
        other = found[label]
        section = "Table 7" if label == "Mask-Predict" else "Section 5.2"
        verdicts.append(
            judge.better(f"Easy-first is better than {label} ({section})", easy.texts, other.texts)
        )
        steps = mean_difference(easy.steps, other.steps, lab.samples)
        verdicts.append(Verdict(f"... and needs fewer steps than {label}", steps.below(), f"{steps} steps"))
    return Report(
        title=f"Decoding strategies: {lab.suite.name}",
        source=paper.TABLE_7,
        command=command,
        tables=(stepped_table(lab, found, paper.STRATEGIES),),
        verdicts=tuple(verdicts),
        inconsistencies=paper.INCONSISTENCIES["strategies"],
    )


EXPERIMENT = Experiment(
    "Decoding strategies",
    lambda suite: systems.systems_for(suite, [systems.DISCO]),
    run,
    ("wmt14.en-de", "wmt16.ro-en"),
)
