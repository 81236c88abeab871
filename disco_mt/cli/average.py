"""disco average: the best checkpoints of a run -> one model directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import tyro

from disco_mt.cli.common import call
from disco_mt.training.averaging import average


def run(
    run_: Annotated[Path, tyro.conf.arg(name="run", metavar="RUN"), tyro.conf.Positional],
    out: Path,
    number: int = 5,
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> int:
    """Average the weights of the best checkpoints of a run, by dev BLEU, into a model with a model card.

    disco average runs/teacher --out teacher

    Args:
        run_: Run directory of `disco train`.
        out: Model directory to write; it must not exist yet.
        number: How many checkpoints to average; all, if there are fewer.
        json_: Print as JSON.
    """
    chosen = average(run_, out, number)
    if json_:
        averaged = [{"path": str(each.path), "step": each.step, "bleu": each.bleu} for each in chosen]
        print(json.dumps({"out": str(out), "averaged": averaged}))
    else:
        print(f"{out}: the mean of {len(chosen)} checkpoints of {run_}")
        for each in chosen:
            print(f"  step {each.step:>9,}   dev BLEU {each.bleu:5.2f}")
    return 0


def main(arguments: list[str]) -> int:
    """The verb."""
    return call(run, "average", arguments)
