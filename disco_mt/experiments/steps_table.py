"""The form of Tables 6 and 7: step and BLEU on dev, ours beside the paper's two directions."""

from __future__ import annotations

from disco_mt.experiments.decode import Hypotheses, Lab
from disco_mt.experiments.paper import Result
from disco_mt.reporting.tables import Table, number

DIRECTIONS = ("en-de", "ro-en")


def stepped_table(lab: Lab, found: dict[str, Hypotheses], theirs: dict[str, dict[str, Result]]) -> Table:
    """A row a label of `found`; `theirs` has the same labels."""
    rows, signature = [], ""
    for label, each in found.items():
        quality = lab.quality(each)
        signature = quality.bleu_signature
        own = (number(each.mean_steps), number(quality.bleu), number(quality.chrf))
        rows.append((label, *own, f"{quality.repetition_rate:.2f} %", *_cells(theirs.get(label, {}))))
    header = ("", "steps", "BLEU", "chrF", "repeated words")
    beside = tuple(f"paper {direction}: {what}" for direction in DIRECTIONS for what in ("steps", "BLEU"))
    note = f"Dev, length beam 5, T=10; BLEU is sacreBLEU `{signature}`, the paper's is tokenised BLEU."
    return Table(f"Ours ({lab.suite.name}) beside the paper's", (*header, *beside), tuple(rows), note)


def _cells(theirs: dict[str, Result]) -> list[str]:
    found = [theirs.get(direction) for direction in DIRECTIONS]
    return [
        text
        for each in found
        for text in (number(each.steps) if each else "–", number(each.bleu) if each else "–")
    ]
