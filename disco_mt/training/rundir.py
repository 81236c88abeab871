"""The run directory: how a run begins or goes on, what it logs, which models it keeps.

RUN/run.json      what is run and with what
RUN/log.jsonl     what happened, one JSON object per line
RUN/checkpoints/  see checkpoints.py
RUN/best/         the models with the best dev BLEU, each a whole model directory: step-00001234/
RUN/lock
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory, try_lock, write_text
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.directory import WEIGHTS, load_tensors, save_model
from disco_mt.nn.objective import ObjectiveOptions
from disco_mt.training import checkpoints
from disco_mt.training.checkpoints import (
    CHECKPOINTS,
    step_directories,
    step_name,
    sync,
    writing,
)
from disco_mt.training.job import Scored, State, TrainingJob, best
from disco_mt.training.options import TrainingOptions
from disco_mt.training.processes import Processes
from disco_mt.training.progress import Quiet
from disco_mt.version import __version__

FORMAT_VERSION = 1
RUN, LOG, LOCK, BEST = "run.json", "log.jsonl", "lock", "best"


def lock_run(run: Path, held: ExitStack) -> None:
    """Keep a second training out until `held` is closed; the kernel lets go when the process ends, too."""
    handle = os.open(run / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    held.callback(os.close, handle)
    if not try_lock(handle):
        raise UserError(
            f"another process is training in {run}; wait for it or stop it, or choose another directory"
        )


def is_run(path: Path) -> bool:
    """Has a training run been started here?"""
    return (path / RUN).is_file()


def _check_existing(run: Path) -> None:
    if not is_run(run):
        raise UserError(f"{run} has no training run to resume ({RUN} is missing); start it without --resume")


def _write_run(run: Path, job: TrainingJob) -> None:
    versions = {
        "disco_mt": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    about = {"recipe": job.recipe, "data": str(job.dataset.path.absolute())}
    content = {"format_version": FORMAT_VERSION, **about, "versions": versions}
    with writing(run / RUN):
        write_text(run / RUN, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_run(run: Path) -> dict[str, Any]:
    """What run.json says: "recipe" at least; "data" in runs of newer versions."""
    _check_existing(run)
    try:
        content = dict(json.loads((run / RUN).read_text(encoding="utf-8")))
        content["recipe"].items()
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise UserError(
            f"{run / RUN} cannot be read ({error}); start a new run in another directory"
        ) from None
    return content


def _sweep(run: Path) -> None:
    """Remove what a killed process left half-written."""
    for folder in (run / CHECKPOINTS, run / BEST):
        for path in folder.glob(".step-*"):
            shutil.rmtree(path, ignore_errors=True)
    for name in (RUN, LOG):
        for path in run.glob(f".{name}.*"):
            path.unlink(missing_ok=True)


def log(run: Path, entry: dict[str, Any]) -> None:
    """Append one line."""
    with writing(run / LOG), (run / LOG).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(entry) + "\n")


def read_log(run: Path) -> list[dict[str, Any]]:
    """The lines, without one that a kill cut short."""
    if not (run / LOG).exists():
        return []
    lines = (run / LOG).read_text(encoding="utf-8", errors="replace").split("\n")
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def _cut_log(run: Path, step: int) -> None:
    """Take back what came after `step` (it will come again) and the notice that the run had ended."""
    kept = [entry for entry in read_log(run) if entry["step"] <= step and entry["kind"] != "end"]
    with writing(run / LOG):
        write_text(run / LOG, "".join(json.dumps(entry) + "\n" for entry in kept))


def save_best(run: Path, job: TrainingJob, scored: Scored) -> None:
    """Write a model directory with its dev score."""
    path = run / BEST / step_name(scored.step)
    with writing(path), atomic_directory(path) as directory:
        description = job.dataset.text.save(directory)
        dev = {"step": scored.step, "epoch": scored.epoch, "dev": asdict(scored.score)}
        about = (
            f"After {scored.step:,} updates (epoch {scored.epoch}) it scores {scored.score.bleu:.2f} BLEU on "
            f"the dev set, in {scored.score.steps:.2f} decoder passes per sentence on average."
        )
        text = card(job.model, description, about)
        save_model(directory, job.model, description, text, {**dev, "recipe": job.recipe})
        sync(directory)


def remove_others(run: Path, keep: Sequence[Scored]) -> None:
    """Delete the models that are no longer among the best. Comes after the checkpoint that says so."""
    names = {step_name(scored.step) for scored in keep}
    for path in step_directories(run / BEST):
        if path.name not in names:
            shutil.rmtree(path, ignore_errors=True)


def card(model: TranslationModel, text: dict[str, Any], about: str) -> str:
    """A model card with the header that model hubs read."""
    source, target = text["source"]["language"], text["target"]["language"]
    config = model.config
    return (
        f"---\nlanguage:\n- {source}\n- {target}\nlibrary_name: disco-mt\npipeline_tag: translation\n---\n\n"
        f"# {config.kind} {source}-{target}\n\n{about}\n\n"
        f"{config.encoder.layers} encoder and {config.decoder.layers} decoder layers, width {config.width}, "
        f"{model.count_parameters():,} parameters. The recipe stands in config.json.\n\n"
        f'    disco translate --model . "..."\n'
    )


def start_run(
    run: Path, held: ExitStack, job: TrainingJob, optimizer: torch.optim.Optimizer, world: int
) -> State:
    """A run begins with a checkpoint of step 0, so that there is no moment when it cannot be resumed."""
    if is_run(run):
        raise UserError(f"{run} already has a training run; go on with --resume, or choose another directory")
    if run.is_dir() and not any(run.iterdir()):  # an empty one is as good as none
        run.rmdir()
    if run.exists():
        raise UserError(f"{run} already exists and is not a training run; choose another directory")
    state = State()
    with atomic_directory(run) as directory:
        lock_run(directory, held)
        checkpoints.save(directory, job.model, optimizer, state, job.settings(), world)
        _write_run(directory, job)
    return state


def resume_run(
    run: Path, held: ExitStack, job: TrainingJob, optimizer: torch.optim.Optimizer
) -> tuple[State, int]:
    """Back to the last checkpoint, and how many processes wrote it.

    What was logged and kept after it goes, because it will come again.
    """
    _check_existing(run)
    lock_run(run, held)
    checkpoint = checkpoints.load_latest(run, Quiet().warn)
    _check_settings(run, checkpoint.settings, job.settings())
    load_tensors(job.model, checkpoint.weights, checkpoint.path / WEIGHTS)
    checkpoints.restore_optimizer(checkpoint.optimizer, job.model, optimizer)
    _sweep(run)
    _cut_log(run, checkpoint.state.step)
    _write_run(run, job)
    remove_others(run, best(checkpoint.state.history, job.options.keep_best))
    return checkpoint.state, checkpoint.world


def share(processes: Processes, model: TranslationModel, optimizer: torch.optim.Optimizer) -> None:
    """Give all processes the optimizer of the first, which alone has read a checkpoint.

    So no file system need be shared. The weights follow: DistributedDataParallel begins by sending them.
    """
    if processes.world == 1:
        return
    mine = checkpoints.optimizer_tensors(model, optimizer)
    kinds = processes.broadcast({name: (tensor.shape, tensor.dtype) for name, tensor in mine.items()})
    tensors = {
        name: mine[name].cpu() if processes.first else torch.empty(shape, dtype=kind)
        for name, (shape, kind) in kinds.items()
    }
    for tensor in tensors.values():
        processes.tensor_from_first(tensor)
    checkpoints.restore_optimizer(tensors, model, optimizer)


def _check_settings(run: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    """A setting that is newer than the run had its default there, whether it had a name or not."""
    tables = {"training": asdict(TrainingOptions()), "model": asdict(ModelConfig())}
    named = {f"{table}.{key}": value for table, values in tables.items() for key, value in values.items()}
    defaults = json.loads(json.dumps({**named, "objective": asdict(ObjectiveOptions())}))
    for name, value in now.items():
        default = defaults.get(name)
        found = before.get(name, default)
        if isinstance(found, dict) and isinstance(default, dict):
            found = default | found
        if found != value:
            raise UserError(
                f"{name} is {value!r}, but {run} was started with {found!r}; resume "
                "with the same, or start a new run in another directory"
            )
