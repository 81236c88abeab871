"""The mean of the best models of a run, which is better than each of them (the paper averages five)."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory, refuse_existing
from disco_mt.core.settings import at_least
from disco_mt.nn.directory import Directory, load_tensors, read_config, save_model, weights
from disco_mt.systems.build import load_weights
from disco_mt.systems.build import build_model
from disco_mt.training.best import BEST, card
from disco_mt.training.checkpoints import step_directories, sync, writing
from disco_mt.training.rundir import is_run


@dataclass(frozen=True)
class Averaged:
    """One of the models that went into the mean."""

    path: Path
    step: int
    bleu: float  # on the dev set


def average(run: Path, out: Path, number: int = 5) -> list[Averaged]:
    """Write the mean of the `number` best models of `run` by dev BLEU (or of all, if there are fewer)."""
    at_least("number", number, 1)
    refuse_existing(out)
    chosen = _best(run)[:number]
    directory = read_config(chosen[0].path)
    model = build_model(directory.model)
    model.freeze(directory.frozen)
    load_tensors(model, _mean([entry.path for entry in chosen]), run / BEST)
    files = {directory.text[side]["file"] for side in ("source", "target")}
    scores = [{"step": entry.step, "bleu": entry.bleu} for entry in chosen]
    with writing(out), atomic_directory(out) as temporary:
        for name in files:
            shutil.copyfile(directory.path / name, temporary / name)
        extra = {"averaged": scores, "recipe": directory.extra.get("recipe", {})}
        save_model(temporary, model, directory.text, card(model, directory.text, _about(chosen)), extra)
        sync(temporary)
    return chosen


def _best(run: Path) -> list[Averaged]:
    """The models of a run, best first; of equal ones the earlier."""
    if not is_run(run):
        raise UserError(
            f"{run} is not a training run: run.json is missing in it; give the --out of disco train"
        )
    entries = [_entry(read_config(path)) for path in step_directories(run / BEST)]
    if not entries:
        raise UserError(
            f"{run} has no models to average yet: {run / BEST} is empty until the first dev score"
        )
    return sorted(entries, key=lambda entry: (-entry.bleu, entry.step))


def _entry(directory: Directory) -> Averaged:
    try:
        return Averaged(directory.path, int(directory.extra["step"]), float(directory.extra["dev"]["bleu"]))
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"{directory.path}: config.json has no dev score; did disco train write it?"
        ) from None


def _mean(models: list[Path]) -> dict[str, torch.Tensor]:
    """Summed in float64, one model at a time in memory."""
    sums: dict[str, torch.Tensor] = {}
    for path in models:
        for name, tensor in weights(load_weights(read_config(path))).items():
            sums[name] = sums[name] + tensor if name in sums else tensor.double()
    return {name: (total / len(models)).float() for name, total in sums.items()}


def _about(chosen: list[Averaged]) -> str:
    lines = "".join(f"| {entry.step:,} | {entry.bleu:.2f} |\n" for entry in chosen)
    return (
        f"The mean of the weights of {len(chosen)} checkpoints, the best of their run by dev BLEU:\n\n"
        f"| updates | dev BLEU |\n|---:|---:|\n{lines}"
    ).rstrip()
