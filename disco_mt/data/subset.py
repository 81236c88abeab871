"""A subset of a dataset: fewer training pairs, with the same tokenizers, valid and test."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory, sha256, write_text
from disco_mt.data.dataset import Dataset, read_description
from disco_mt.data.encode import write_side


def write_subset(whole: Path, out: Path, pairs: int, seed: int = 1) -> None:
    """Write `out` with `pairs` random training pairs of `whole`; larger subsets contain smaller ones."""
    dataset = Dataset.open(whole)
    train = dataset.splits["train"]
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
        entry = description["splits"]["train"]
        entry["pairs"] = pairs
        entry["source"] = write_side(directory / "train.source", train.source, picked, dataset.text.source)
        entry["target"] = write_side(directory / "train.target", train.target, picked, dataset.text.target)
        description["files"] = {path.name: sha256(path) for path in sorted(directory.iterdir())}
        write_text(directory / "dataset.json", json.dumps(description, indent=2, ensure_ascii=False) + "\n")
