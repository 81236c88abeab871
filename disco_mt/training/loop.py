"""Training: a new run or one that goes on, with one call.

A run that is stopped anywhere and resumed gives the same weights, bit for bit (on a CPU with the same number
of threads): the data and every random draw follow from (seed, step), the rest is in the checkpoint.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from disco_mt.data.dataset import Dataset, Split
from disco_mt.errors import UserError
from disco_mt.files import atomic_directory
from disco_mt.models.base import TranslationModel
from disco_mt.objectives.losses import Objective
from disco_mt.training import checkpoints, rundir
from disco_mt.training.best import remove_others
from disco_mt.training.dev import Scorer, best
from disco_mt.training.interrupt import interruption
from disco_mt.training.options import TrainingOptions
from disco_mt.training.progress import Quiet, progress
from disco_mt.training.session import Session, TrainingResult
from disco_mt.training.state import State
from disco_mt.training.updates import Plan, sizes


def train(
    run: Path,
    model: TranslationModel,
    dataset: Dataset,
    objective: Objective,
    score: Scorer,
    options: TrainingOptions,
    recipe: dict[str, Any],
    *,
    resume: bool = False,
    quiet: bool = False,
) -> TrainingResult:
    """Train `model` into the directory `run`, from the start or from its last checkpoint.

    `recipe` is kept in run.json and in the models; if it names an "objective", a resumed run must name the
    same, as it must have the same model, data and (but for when to stop and what to keep) options.
    """
    _check_lengths(model, dataset.splits["train"])
    settings = _settings(model, dataset, options, recipe)
    optimizer = adamw(model, options)
    begin = _resume if resume else _start
    state = begin(run, model, optimizer, settings, recipe, options)
    plan = Plan(dataset.splits["train"], options.batch_tokens, options.max_tokens, options.seed)
    amount = sizes(plan, state.position.epoch)
    epochs = options.max_epochs * amount.updates or options.max_steps
    with (
        progress(min(options.max_steps, epochs), state.step, quiet) as shown,
        interruption(shown.warn) as interrupted,
    ):
        session = Session(
            run, model, dataset, objective, score, options, recipe, settings, optimizer, plan, state, shown
        )
        session.announce(amount)
        return session.run_to_the_end(interrupted)


def adamw(model: TranslationModel, options: TrainingOptions) -> torch.optim.AdamW:
    """AdamW with decoupled decay on all parameters. The fused one takes less than half the time."""
    return torch.optim.AdamW(
        model.parameters(),
        lr=options.learning_rate,
        betas=(options.adam_beta1, options.adam_beta2),
        eps=options.adam_epsilon,
        weight_decay=options.weight_decay,
        fused=True,
    )


def _start(
    run: Path,
    model: TranslationModel,
    optimizer: torch.optim.Optimizer,
    settings: dict[str, Any],
    recipe: dict[str, Any],
    options: TrainingOptions,
) -> State:
    """A run begins with a checkpoint of step 0, so that there is no moment when it cannot be resumed."""
    rundir.check_new(run)
    state = State()
    with atomic_directory(run) as directory:
        checkpoints.save(directory, model, optimizer, state, settings)
        rundir.write_run(directory, recipe)
    return state


def _resume(
    run: Path,
    model: TranslationModel,
    optimizer: torch.optim.Optimizer,
    settings: dict[str, Any],
    recipe: dict[str, Any],
    options: TrainingOptions,
) -> State:
    """Back to the last checkpoint: what was logged and kept after it goes, because it will come again."""
    rundir.check_existing(run)
    checkpoint = checkpoints.load_latest(run, Quiet().warn)
    _check_settings(run, checkpoint.settings, settings)
    checkpoints.restore(checkpoint, model, optimizer)
    rundir.sweep(run)
    rundir.cut_log(run, checkpoint.state.step)
    rundir.write_run(run, recipe)
    remove_others(run, best(checkpoint.state.history, options.keep_best))
    return checkpoint.state


def _check_lengths(model: TranslationModel, split: Split) -> None:
    """A model has a vector for so many positions and no more."""
    if not len(split):
        raise UserError(f"{split.directory} has no training pairs; prepare the dataset again")
    limits = {"source": model.config.max_source, "target": model.config.max_target}
    for side, lengths in (("source", split.source_lengths), ("target", split.target_lengths)):
        longest = int(lengths.max()) + 1
        if longest > limits[side]:
            raise UserError(
                f"model.max_{side} must be at least {longest}, the longest {side} sentence with its end, got "
                f"{limits[side]}; raise it, or prepare the data with a smaller max_length"
            )


def _settings(
    model: TranslationModel, dataset: Dataset, options: TrainingOptions, recipe: dict[str, Any]
) -> dict[str, Any]:
    """What the weights depend on, by the names that recipes have for it."""
    tables = {"training": options.decisive(), "model": asdict(model.config)}
    named = {f"{table}.{key}": value for table, values in tables.items() for key, value in values.items()}
    return {**named, "data": dataset.fingerprint, "objective": recipe.get("objective")}


def _check_settings(run: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    for name, value in now.items():
        if before.get(name) != value:
            raise UserError(
                f"{name} is {value!r}, but {run} was started with {before.get(name)!r}; resume "
                "with the same, or start a new run in another directory"
            )
