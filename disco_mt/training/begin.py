"""Where a run begins: at step 0, or at the last checkpoint of a run that stopped."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.objective import ObjectiveOptions
from disco_mt.training import checkpoints, rundir
from disco_mt.training.best import remove_others
from disco_mt.training.dev import best
from disco_mt.training.job import TrainingJob
from disco_mt.training.options import TrainingOptions
from disco_mt.training.processes import Processes
from disco_mt.training.progress import Quiet
from disco_mt.training.rundir import Lock
from disco_mt.training.state import State


@dataclass(frozen=True)
class Beginning:
    """Where a run stands before its first update of today."""

    state: State
    world: int  # processes that brought it there


def start_run(
    run: Path, lock: Lock, job: TrainingJob, optimizer: torch.optim.Optimizer, world: int
) -> Beginning:
    """A run begins with a checkpoint of step 0, so that there is no moment when it cannot be resumed."""
    rundir.check_new(run)
    state = State()
    with atomic_directory(run) as directory:
        lock.take(directory)
        checkpoints.save(directory, job.model, optimizer, state, job.settings(), world)
        rundir.write_run(directory, job.about())
    return Beginning(state, world)


def resume_run(run: Path, lock: Lock, job: TrainingJob, optimizer: torch.optim.Optimizer) -> Beginning:
    """Back to the last checkpoint: what was logged and kept after it goes, because it will come again."""
    rundir.check_existing(run)
    lock.take(run)
    checkpoint = checkpoints.load_latest(run, Quiet().warn)
    _check_settings(run, checkpoint.settings, job.settings())
    checkpoints.restore(checkpoint, job.model, optimizer)
    rundir.sweep(run)
    rundir.cut_log(run, checkpoint.state.step)
    rundir.write_run(run, job.about())
    remove_others(run, best(checkpoint.state.history, job.options.keep_best))
    return Beginning(checkpoint.state, checkpoint.world)


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
