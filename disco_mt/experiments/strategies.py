"""Table 7: one DisCo decoded in several orders, on dev."""

from __future__ import annotations

from dataclasses import replace

from disco_mt.experiments import paper
from disco_mt.experiments.decode import Decoding, Hypotheses, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.experiments.paper import Result
from disco_mt.reporting.intervals import mean_difference
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number
from disco_mt.reporting.verdicts import Verdict
from disco_mt.suites import roles

EASY = "Parallel Easy-First"
STRATEGIES = {
    "Left-to-Right Order": "left-to-right",
    "Right-to-Left Order": "right-to-left",
    "All-But-Itself": "all-but-itself",
    EASY: "easy-first",
    "Mask-Predict": "mask-predict",
}
DIRECTIONS = ("en-de", "ro-en")  # that the paper has dev scores of


def run(lab: Lab, options: Options) -> Report:
    """The same weights, five rules of visibility."""
    system = lab.system(roles.DISCO)
    decodings = {
        label: Decoding(system, replace(roles.EASY_FIRST, strategy=strategy))
        for label, strategy in STRATEGIES.items()
    }
    found = lab.decode_all(decodings, "valid")
    judge, easy, verdicts = lab.judge("valid"), found[EASY], []
    for label, other in found.items():
        if label == EASY:
            continue
        section = "Table 7" if label == "Mask-Predict" else "Section 5.2"
        steps = mean_difference(easy.steps, other.steps, lab.samples)
        verdicts += [
            judge.better(f"Easy-first is better than {label} ({section})", easy.texts, other.texts),
            Verdict(f"... and needs fewer steps than {label}", steps.below(), f"{steps} steps"),
        ]
    return Report((steps_table(lab, found, paper.STRATEGIES),), tuple(verdicts))


def steps_table(lab: Lab, found: dict[str, Hypotheses], theirs: dict[str, dict[str, Result]]) -> Table:
    """The form of Tables 6 and 7: steps and BLEU on dev, ours beside the paper's two directions."""
    rows, signature = [], ""
    for label, each in found.items():
        quality = lab.quality(each)
        signature = quality.bleu_signature
        own = (number(each.mean_steps), number(quality.bleu), number(quality.chrf))
        results = [theirs.get(label, {}).get(direction) for direction in DIRECTIONS]
        beside = [
            number(value)
            for result in results
            for value in ((result.steps, result.bleu) if result else (None, None))
        ]
        rows.append((label, *own, f"{quality.repetition_rate:.2f} %", *beside))
    header = ("", "steps", "BLEU", "chrF", "repeated words")
    columns = tuple(f"paper {direction}: {what}" for direction in DIRECTIONS for what in ("steps", "BLEU"))
    note = f"Dev, length beam 5, T=10; BLEU is sacreBLEU `{signature}`, the paper's is tokenised BLEU."
    return Table(f"Ours ({lab.suite.name}) beside the paper's", (*header, *columns), tuple(rows), note)


EXPERIMENT = Experiment(
    "Decoding strategies",
    paper.TABLE_7,
    lambda suite: roles.systems_for(suite, [roles.DISCO]),
    run,
    inconsistencies=paper.INCONSISTENCIES["strategies"],
)
