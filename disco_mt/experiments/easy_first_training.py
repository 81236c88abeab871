"""Table 6: training in the easy-first order instead of random contexts, on dev."""

from __future__ import annotations

from disco_mt.experiments import paper, systems
from disco_mt.experiments.decode import Decoding, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.experiments.steps_table import stepped_table
from disco_mt.reporting.intervals import mean_difference
from disco_mt.reporting.reports import Report
from disco_mt.reporting.verdicts import MARGIN, Verdict

ROLES = {"Random Sampling": systems.DISCO, "Easy-First Training": systems.EASY_FIRST_TRAINED}


def run(lab: Lab, options: Options, command: str) -> Report:
    """Both models decoded with easy-first, T=10, length beam 5."""
    found = {
        label: lab.decode(Decoding(lab.system(role), systems.EASY_FIRST), "valid")
        for label, role in ROLES.items()
    }
    random, easy = found.values()
    difference = lab.judge("valid").difference(easy.texts, random.texts)
    steps = mean_difference(easy.steps, random.steps, lab.samples)
    verdicts = (
        Verdict(
            "Easy-first training does not ameliorate performance (Section 5.1)",
            "no" if difference.above() == "yes" else difference.below(MARGIN),
            f"{difference} BLEU; yes if more than +{MARGIN:g} can be ruled out, no if it is above 0",
        ),
        Verdict("... but lowers it", difference.below(), f"{difference} BLEU"),
        Verdict("It decreases the number of steps", steps.below(), f"{steps} steps"),
    )
    return Report(
        title=f"Easy-first training: {lab.suite.name}",
        source=paper.TABLE_6,
        command=command,
        tables=(stepped_table(lab, found, paper.EASY_FIRST_TRAINING),),
        verdicts=verdicts,
        inconsistencies=paper.INCONSISTENCIES["easy-first-training"],
    )


EXPERIMENT = Experiment(
    "Easy-first training",
    lambda suite: systems.systems_for(suite, ROLES.values()),
    run,
    ("wmt14.en-de", "wmt16.ro-en"),
)
