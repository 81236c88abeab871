"""Choosing among trainings of a system by dev BLEU, as the paper chooses the dropout."""

from __future__ import annotations

import json
from pathlib import Path

from disco_mt.core.errors import UserError
from disco_mt.core.files import write_text
from disco_mt.data.dataset import read_description
from disco_mt.training.rundir import read_log


def choose(runs: dict[str, Path], out: Path) -> dict[str, float]:
    """Write which training has the best dev BLEU (of equal ones the first); returns that of each.

    runs: the stage of each training -> its run directory.
    """
    scores = {name: _best_dev_bleu(run) for name, run in runs.items()}
    best = max(scores, key=lambda name: scores[name])  # the first of equal ones
    write_text(out, json.dumps({"chosen": best, "dev_bleu": scores}, indent=2) + "\n")
    return scores


def chosen_training(chosen: Path) -> str:
    """The stage that was chosen."""
    return str(read_description(chosen.parent, chosen.name, "a choice")["chosen"])


def _best_dev_bleu(run: Path) -> float:
    scores = [entry["bleu"] for entry in read_log(run) if entry["kind"] == "dev"]
    if not scores:
        raise UserError(f"{run} has no dev score to choose by")
    return float(max(scores))
