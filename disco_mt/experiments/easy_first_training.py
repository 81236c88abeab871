"""Table 6: training in the easy-first order instead of random contexts, on dev."""

from __future__ import annotations

from disco_mt.experiments import paper
from disco_mt.experiments.decode import Decoding, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.experiments.strategies import steps_table
from disco_mt.reporting.intervals import mean_difference
from disco_mt.reporting.reports import Report
from disco_mt.reporting.verdicts import MARGIN, Verdict
from disco_mt.suites import roles

ROLES = {"Random Sampling": roles.DISCO, "Easy-First Training": roles.EASY_FIRST_TRAINED}


def run(lab: Lab, options: Options) -> Report:
    """Both models decoded with easy-first, T=10, length beam 5."""
    decodings = {label: Decoding(lab.system(role), roles.EASY_FIRST) for label, role in ROLES.items()}
    found = lab.decode_all(decodings, "valid")
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
    return Report((steps_table(lab, found, paper.EASY_FIRST_TRAINING),), verdicts)


EXPERIMENT = Experiment(
    "Easy-first training",
    paper.TABLE_6,
    lambda suite: roles.systems_for(suite, ROLES.values()),
    run,
    inconsistencies=paper.INCONSISTENCIES["easy-first-training"],
)
