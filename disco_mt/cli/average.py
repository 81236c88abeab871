"""disco average: the best checkpoints of a run -> one model directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import tyro

from disco_mt.cli.common import Json
from disco_mt.core.files import refuse_existing
from disco_mt.training import averaging


def average(
    run_: Annotated[Path, tyro.conf.arg(name="run", metavar="RUN"), tyro.conf.Positional],
    out: Path,
    number: int = 0,
    data: Path | None = None,
    json_: Json = False,
) -> int:
    """Average the weights of the best checkpoints of a run, by dev BLEU, into a model with a model card.

    By default the number of checkpoints (1, 2, 3 or 5) is the one whose mean has the best dev BLEU.

    disco average runs/teacher --out teacher
    disco average runs/teacher --out teacher --number 5

    Args:
        run_: Run directory of `disco train`.
        out: Model directory to write; it must not exist yet.
        number: How many checkpoints to average (the paper: 5); 0: chosen on the dev set.
        data: The dataset of the training, if it has moved since then.
    """
    refuse_existing(out)
    scores = _scored(run_, data, quiet=json_) if not number else []
    chosen = averaging.average(run_, out, number or averaging.best_number(scores))
    if json_:
        averaged = [{"path": str(each.path), "step": each.step, "bleu": each.bleu} for each in chosen]
        means = [{"number": each, "bleu": bleu} for each, bleu in scores]
        print(json.dumps({"out": str(out), "averaged": averaged, "means": means}))
    else:
        why = ", the number with the best dev BLEU" if scores else ""
        what = "the best checkpoint" if len(chosen) == 1 else f"the mean of {len(chosen)} checkpoints"
        print(f"{out}: {what} of {run_}{why}")
        for each in chosen:
            print(f"  step {each.step:>9,}   dev BLEU {each.bleu:5.2f}")
    return 0


def _scored(run: Path, data: Path | None, quiet: bool) -> list[tuple[int, float]]:
    """The dev BLEU of each mean, printed as soon as it is known."""
    scores = []
    for number, bleu in averaging.score_means(run, data):
        scores.append((number, bleu))
        if not quiet:
            print(f"  mean of {number}: dev BLEU {bleu:5.2f}", flush=True)
    return scores
