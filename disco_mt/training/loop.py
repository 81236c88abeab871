"""Training: a new run or one that goes on, with one call.

A run that is stopped anywhere and resumed gives the same weights, bit for bit (on a CPU with the same number
of threads): the data and every random draw follow from (seed, step), the rest is in the checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from disco_mt.core.errors import UserError
from disco_mt.data.dataset import Dataset, Split
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.losses import Objective
from disco_mt.training import rundir
from disco_mt.training.begin import Beginning, resume_run, share, start_run
from disco_mt.training.compiled import compile_layers
from disco_mt.training.dev import Scorer
from disco_mt.training.encoder_states import EncoderStates, check_frozen_encoder, keep_encoder_states
from disco_mt.training.gradients import GradientAccumulator
from disco_mt.training.interrupt import interruption
from disco_mt.training.memory import keep_freed_memory
from disco_mt.training.optimizer import build_optimizer
from disco_mt.training.options import TrainingOptions
from disco_mt.training.precision import check_precision
from disco_mt.training.processes import ALONE, Processes, restarted
from disco_mt.training.progress import progress
from disco_mt.training.session import Session, TrainingResult
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
    processes: Processes = ALONE,
) -> TrainingResult:
    """Train `model` into the directory `run`, from the start or from its last checkpoint.

    `recipe` is kept in run.json and in the models; if it names an "objective", a resumed run must name the
    same, as it must have the same model, data and (but for when to stop and what to keep) options.
    processes: those that train together, each with its own copy of everything here; see processes.py.
    """
    keep_freed_memory()
    device = str(next(model.parameters()).device)
    _check_lengths(model, dataset.splits["train"])
    model.freeze(options.freeze)
    if options.encoder_states:
        check_frozen_encoder(model)
    check_precision(options.precision, device)
    if options.compile:
        compile_layers(model, device)
    settings = _settings(model, dataset, options, recipe)
    optimizer = build_optimizer(model, options)

    about = {"recipe": recipe, "data": str(dataset.path.absolute())}

    def begin(lock: rundir.Lock) -> Beginning:
        if resume or (restarted() and rundir.is_run(run)):
            return resume_run(run, lock, model, optimizer, settings, about, options.keep_best)
        return start_run(run, lock, model, optimizer, settings, about, processes.world)

    with rundir.Lock() as lock:
        beginning = processes.on_rank_zero(lambda: begin(lock))
        share(processes, model, optimizer)
        state, split = beginning.state, dataset.splits["train"]
        tokens = options.batch_tokens, options.max_tokens
        plan = Plan(split, *tokens, options.seed, processes.world, processes.rank)
        learner = GradientAccumulator(model, objective, options.precision, processes, options.compile)
        if options.encoder_states:  # only now do all processes have the weights of the first
            processes.on_rank_zero(lambda: len(_states(model, dataset, options, quiet).starts))
            learner.states = _states(model, dataset, options, quiet)
        amount = sizes(plan, state.position.epoch)
        total = min(options.max_steps, options.max_epochs * amount.updates or options.max_steps)
        with (
            progress(total, state.step, quiet, processes.first) as shown,
            interruption(shown.warn) as interrupted,
        ):
            session = Session(
                run, model, dataset, learner, score, options, recipe, settings, optimizer, plan, state, shown
            )
            session.announce(amount, beginning.world)
            return session.run_to_the_end(interrupted)


def _states(
    model: TranslationModel, dataset: Dataset, options: TrainingOptions, quiet: bool
) -> EncoderStates:
    folder, split = Path(options.encoder_states), dataset.splits["train"]
    return keep_encoder_states(model, split, dataset.fingerprint, folder, options.precision, quiet)


def _check_lengths(model: TranslationModel, split: Split) -> None:
    """A model has vectors for so many positions, and classes for so many lengths, and no more."""
    if not len(split):
        raise UserError(f"{split.directory} has no training pairs; prepare the dataset again")
    config, lengths = model.config, {"source": split.source_lengths, "target": split.target_lengths}
    longest = {side: int(each.max()) + 1 for side, each in lengths.items()}
    wanted = {f"max_{side}": size for side, size in longest.items()}
    if config.kind != "autoregressive":
        wanted["length_classes"] = longest["target"] + 1  # class 0 is no length
    for name, size in wanted.items():
        side = "source" if name == "max_source" else "target"
        if getattr(config, name) < size:
            raise UserError(
                f"model.{name} must be at least {size}: the longest {side} sentence has {longest[side]} "
                f"tokens with its end, got {getattr(config, name)}; raise it, or prepare the data with a "
                "smaller max_length"
            )


def _settings(
    model: TranslationModel, dataset: Dataset, options: TrainingOptions, recipe: dict[str, Any]
) -> dict[str, Any]:
    """What the weights depend on, by the names that recipes have for it."""
    tables = {"training": options.decisive(), "model": asdict(model.config)}
    named = {f"{table}.{key}": value for table, values in tables.items() for key, value in values.items()}
    settings = {**named, "data": dataset.fingerprint, "objective": recipe.get("objective")}
    as_json: dict[str, Any] = json.loads(json.dumps(settings))  # a checkpoint's settings were written as JSON
    return as_json
