"""Checkpoints that survive: written whole or not at all, checked when read, the last two kept.

    RUN/checkpoints/step-00001234/
      model.safetensors      the weights
      optimizer.safetensors  the optimizer's state, KEY.PARAMETER: exp_avg, exp_avg_sq, step, momentum_buffer
      state.json             format version, where the run stands, what it was run with, SHA-256 of all this

A checkpoint is written beside its place, brought to the disk (fsync) and then renamed, so that a crash, a
kill or a full disk leaves the one before it as it was. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory, sha256
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.directory import WEIGHTS, weights
from disco_mt.training.job import State

FORMAT_VERSION = 1
KEEP = 2
CHECKPOINTS, OPTIMIZER, STATE = "checkpoints", "optimizer.safetensors", "state.json"

_RENAMED = {"momentum": "momentum_buffer"}  # Muon's, in checkpoints of version 0.1

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint, read and found whole."""

    path: Path
    state: State
    settings: dict[str, Any]  # what the weights depend on, see loop.py
    world: int  # processes it was written by
    weights: Tensors
    optimizer: Tensors


def save(
    run: Path,
    model: TranslationModel,
    optimizer: torch.optim.Optimizer,
    state: State,
    settings: dict[str, Any],
    world: int = 1,
) -> None:
    """Write the checkpoint of `state.step`; only when it is complete do older ones go."""
    path = run / CHECKPOINTS / step_name(state.step)
    shutil.rmtree(path, ignore_errors=True)  # there only if it was found damaged and the run went back
    with writing(path), atomic_directory(path) as directory:
        save_file(weights(model), directory / WEIGHTS)
        save_file(optimizer_tensors(model, optimizer), directory / OPTIMIZER)
        content = {
            "format_version": FORMAT_VERSION,
            "state": asdict(state),  # Python writes floats so that they come back exactly
            "settings": settings,
            "world": world,
            "files": {name: sha256(directory / name) for name in (WEIGHTS, OPTIMIZER)},
        }
        sealed = {**content, "sha256": _digest(content)}
        (directory / STATE).write_text(json.dumps(sealed, indent=1) + "\n", encoding="utf-8")
        sync(directory)
    _fsync(path.parent)
    keep = [old for old in step_directories(path.parent) if old.name <= path.name][-KEEP:]
    for old in step_directories(path.parent):
        if old not in keep:
            shutil.rmtree(old, ignore_errors=True)


def load_latest(run: Path, warn: Callable[[str], None]) -> Checkpoint:
    """The newest checkpoint that is whole; damaged ones before it are reported."""
    paths = step_directories(run / CHECKPOINTS)
    for path in reversed(paths):
        try:
            return _load(path)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            warn(f"the checkpoint {path} is damaged ({error}); trying the one before it")
    found = f"all {len(paths)} are damaged" if paths else "there is none"
    raise UserError(f"{run} has no checkpoint to go on from ({found}); start a new run in another directory")


def restore_optimizer(tensors: Tensors, model: TranslationModel, optimizer: torch.optim.Optimizer) -> None:
    """The inverse of `optimizer_tensors`."""
    parameters = dict(model.named_parameters())
    for full_name, tensor in tensors.items():
        key, name = full_name.split(".", 1)
        key = _RENAMED.get(key, key)
        # A copy: the optimizer writes into it, and what was read from a file need not be aligned.
        optimizer.state[parameters[name]][key] = tensor.clone().to(parameters[name].device)


def optimizer_tensors(model: TranslationModel, optimizer: torch.optim.Optimizer) -> Tensors:
    """The optimizer's state under names that do not depend on the order of parameters."""
    return {
        f"{key}.{name}": tensor
        for name, parameter in model.named_parameters()
        for key, tensor in optimizer.state[parameter].items()
    }


def step_name(step: int) -> str:
    """The name of a directory; its alphabetical order is that of the steps."""
    return f"step-{step:08d}"


def step_directories(folder: Path) -> list[Path]:
    """The finished ones in a folder, by step."""
    return sorted(folder.glob("step-*"))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in the user's words that a write failed: a full disk most of all."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(
            f"cannot write {path}: {reason}; what was written before is intact: fix this (free some space?) "
            "and go on with --resume"
        ) from error


def sync(directory: Path) -> None:
    """Bring a directory and its files to the disk."""
    for path in directory.iterdir():
        _fsync(path)
    _fsync(directory)


def _load(path: Path) -> Checkpoint:
    content = json.loads((path / STATE).read_text(encoding="utf-8"))
    if content["format_version"] > FORMAT_VERSION:
        raise UserError(
            f"{path / STATE}: format version {content['format_version']} is newer than this Disco reads "
            f"({FORMAT_VERSION}); upgrade with: pip install -U disco-mt"
        )
    if content.pop("sha256") != _digest(content):
        raise ValueError(f"{STATE} is not as it was written")
    for name in (WEIGHTS, OPTIMIZER):
        if sha256(path / name) != content["files"][name]:
            raise ValueError(f"the SHA-256 of {name} is not the one in {STATE}")
    state = State.from_dict(content["state"])
    tensors = load_file(path / WEIGHTS), load_file(path / OPTIMIZER)
    return Checkpoint(path, state, content["settings"], content["world"], *tensors)


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
