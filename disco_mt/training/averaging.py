"""Average the weights of the best checkpoints of a run. The paper averages five, after a long training.

In a short run the checkpoints are far apart, and their mean can be worse than each of them. So by default the
dev BLEU of the mean itself decides how many are averaged.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory, refuse_existing
from disco_mt.core.settings import at_least, from_dict
from disco_mt.data.dataset import Dataset
from disco_mt.decoding.options import DecodingOptions
from disco_mt.evaluation.dev import Scorer, dev_scorer
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.directory import Directory, load_tensors, read_config, save_model, weights
from disco_mt.systems.build import build_model, load_weights
from disco_mt.training.checkpoints import step_directories, sync, writing
from disco_mt.training.rundir import BEST, RUN, card, is_run, read_run

NUMBERS = (1, 2, 3, 5)  # of checkpoints, to choose from


@dataclass(frozen=True)
class Averaged:
    """One of the checkpoints that went into the mean."""

    path: Path
    step: int
    bleu: float  # on the dev set


def average(run: Path, out: Path, number: int) -> list[Averaged]:
    """Write the mean of the `number` best checkpoints of `run` by dev BLEU."""
    refuse_existing(out)
    chosen = _chosen(run, number)
    directory = read_config(chosen[0].path)
    model = mean_model(run, number)
    files = {directory.text[side]["file"] for side in ("source", "target")}
    scores = [{"step": entry.step, "bleu": entry.bleu} for entry in chosen]
    with writing(out), atomic_directory(out) as temporary:
        for name in files:
            shutil.copyfile(directory.path / name, temporary / name)
        extra = {"averaged": scores, "recipe": directory.extra.get("recipe", {})}
        save_model(temporary, model, directory.text, card(model, directory.text, _about(chosen)), extra)
        sync(temporary)
    return chosen


def score_means(run: Path, data: Path | None = None) -> Iterator[tuple[int, float]]:
    """(number, dev BLEU of the mean of so many checkpoints), decoded as in training.

    data: where the dataset is now, if it has moved since the training.
    """
    _best(run)  # refuses what is not a run, or has no checkpoints yet
    about = read_run(run)
    dataset = data or (Path(about["data"]) if "data" in about else None)
    if dataset is None or not dataset.is_dir():
        where = f"{dataset} does not exist any more" if dataset else f"{run} does not say where its data are"
        raise UserError(
            f"how many checkpoints to average is chosen on the dev set, but {where}; give the dataset with "
            "--data, or a number with --number (the paper averages 5)"
        )
    return scored_means(run, dev_scorer(Dataset.open(dataset), _decoding(run, about["recipe"])))


def _decoding(run: Path, recipe: dict[str, Any]) -> DecodingOptions:
    """How the run measured dev BLEU; options that only older versions had are left out."""
    known = {field.name for field in fields(DecodingOptions)}
    settings = {
        name: value
        for name, value in recipe.get("decoding", {}).items()
        if name in known and value is not None
    }
    return from_dict(DecodingOptions, settings, str(run / RUN))


def best_number(scores: list[tuple[int, float]]) -> int:
    """The number with the best mean; of equal ones the smallest."""
    return max(scores, key=lambda score: (score[1], -score[0]))[0]


def scored_means(run: Path, score: Scorer) -> Iterator[tuple[int, float]]:
    """(number, score of the mean) for each of NUMBERS for which the run has kept enough checkpoints."""
    kept = len(_best(run))
    for number in NUMBERS:
        if number <= kept:
            yield number, score(mean_model(run, number).eval()).bleu


def mean_model(run: Path, number: int) -> TranslationModel:
    """The mean of the `number` best checkpoints."""
    chosen = _chosen(run, number)
    directory = read_config(chosen[0].path)
    model = build_model(directory.model)
    model.freeze(directory.frozen)
    load_tensors(model, _mean([entry.path for entry in chosen]), run / BEST)
    return model


def _chosen(run: Path, number: int) -> list[Averaged]:
    """The `number` best checkpoints, or a refusal if fewer were kept."""
    at_least("number", number, 1)
    kept = _best(run)
    if number > len(kept):
        raise UserError(
            f"{run} has kept {len(kept)} checkpoints, so {number} cannot be averaged; average fewer, or "
            "train with a larger training.keep_best and more dev scores"
        )
    return kept[:number]


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
    mean = (
        "The checkpoint with the best"
        if len(chosen) == 1
        else (f"The mean of the weights of {len(chosen)} checkpoints, the best of their run by")
    )
    return (f"{mean} dev BLEU:\n\n| updates | dev BLEU |\n|---:|---:|\n{lines}").rstrip()
