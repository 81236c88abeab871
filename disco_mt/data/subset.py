"""A part of a dataset: fewer training pairs; tokenizers, valid and test as they were."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory, sha256, write_text
from disco_mt.data.dataset import Dataset, Side, read_description
from disco_mt.data.encode import CHUNK


def write_subset(whole: Path, out: Path, pairs: int, seed: int = 1) -> None:
    """Write `out` with `pairs` random training pairs of `whole`; a larger part has every smaller one."""
    train = Dataset.open(whole).splits["train"]
    if not 1 <= pairs <= len(train):
        raise UserError(
            f"pairs must be between 1 and {len(train)}, the training pairs of {whole}; got {pairs}"
        )
    picked = np.sort(np.random.default_rng(seed).permutation(len(train))[:pairs])
    description = read_description(whole, "dataset.json", "a dataset directory")
    with atomic_directory(out) as directory:
        for path in whole.iterdir():
            if path.is_file() and path.name != "dataset.json" and not path.name.startswith("train."):
                shutil.copyfile(path, directory / path.name)
        sides = {"source": train.source, "target": train.target}
        tokens = {name: _write(directory / f"train.{name}", side, picked) for name, side in sides.items()}
        _describe(directory, description, pairs, tokens)


def _write(stem: Path, side: Side, picked: np.ndarray[Any, np.dtype[np.int64]]) -> int:
    offsets = np.concatenate([[0], side.lengths[picked].cumsum(dtype="<i8")])
    stem.with_name(f"{stem.name}.idx").write_bytes(offsets.tobytes())
    with stem.with_name(f"{stem.name}.bin").open("wb") as stream:
        for start in range(0, len(picked), CHUNK):
            stream.write(np.concatenate([side[index] for index in picked[start : start + CHUNK]]).tobytes())
            side.release()
    return int(offsets[-1])


def _describe(directory: Path, description: dict[str, Any], pairs: int, tokens: dict[str, int]) -> None:
    entry = description["splits"]["train"]
    for side, number in tokens.items():
        entry[side]["tokens"] = number
    entry["pairs"] = pairs
    description["files"] = {path.name: sha256(path) for path in sorted(directory.iterdir())}
    write_text(directory / "dataset.json", json.dumps(description, indent=2, ensure_ascii=False) + "\n")
