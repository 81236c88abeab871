"""The run directory. run.json: what is run and with what. log.jsonl: what happened, one JSON object per line.

RUN/run.json  RUN/log.jsonl  RUN/checkpoints/  RUN/best/  RUN/lock
"""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch

from disco_mt.core.errors import UserError
from disco_mt.core.files import try_lock, write_text
from disco_mt.training.best import BEST
from disco_mt.training.checkpoints import CHECKPOINTS, remove_unfinished, writing
from disco_mt.version import __version__

FORMAT_VERSION = 1
RUN, LOG, LOCK = "run.json", "log.jsonl", "lock"


class Lock:
    """Keeps a second training out of a run directory. The kernel lets go of it when the process ends."""

    def __init__(self) -> None:
        self.handle: int | None = None

    def take(self, run: Path) -> None:
        """Take the lock of a run, or refuse."""
        self.handle = os.open(run / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        if not try_lock(self.handle):
            raise UserError(
                f"another process is training in {run}; wait for it or stop it, or choose another directory"
            )

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


def is_run(path: Path) -> bool:
    """Has a training run been started here?"""
    return (path / RUN).is_file()


def check_new(run: Path) -> None:
    """Refuse a directory that is taken. An empty one is as good as none, and makes way."""
    if is_run(run):
        raise UserError(f"{run} already has a training run; go on with --resume, or choose another directory")
    if run.is_dir() and not any(run.iterdir()):
        run.rmdir()
    if run.exists():
        raise UserError(f"{run} already exists and is not a training run; choose another directory")


def check_existing(run: Path) -> None:
    """Refuse to resume where nothing was started."""
    if not is_run(run):
        raise UserError(f"{run} has no training run to resume ({RUN} is missing); start it without --resume")


def write_run(run: Path, about: dict[str, Any]) -> None:
    """The resolved "recipe", where the "data" are, and the versions of what runs it."""
    versions = {
        "disco_mt": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    content = {"format_version": FORMAT_VERSION, **about, "versions": versions}
    with writing(run / RUN):
        write_text(run / RUN, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_run(run: Path) -> dict[str, Any]:
    """What `write_run` noted: "recipe" at least; "data" in runs of newer versions."""
    check_existing(run)
    try:
        content = dict(json.loads((run / RUN).read_text(encoding="utf-8")))
        content["recipe"].items()
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise UserError(
            f"{run / RUN} cannot be read ({error}); start a new run in another directory"
        ) from None
    return content


def sweep(run: Path) -> None:
    """Remove what a killed process left half-written."""
    for folder in (run / CHECKPOINTS, run / BEST):
        remove_unfinished(folder)
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


def cut_log(run: Path, step: int) -> None:
    """Take back what came after `step` (it will come again) and the notice that the run had ended."""
    kept = [entry for entry in read_log(run) if entry["step"] <= step and entry["kind"] != "end"]
    with writing(run / LOG):
        write_text(run / LOG, "".join(json.dumps(entry) + "\n" for entry in kept))
