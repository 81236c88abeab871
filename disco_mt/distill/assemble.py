"""The finished translations -> a dataset: train has new targets (and sources, if some were made), everything
else is as it was."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_file, sha256, write_text
from disco_mt.data.dataset import Dataset, Side
from disco_mt.data.encode import DROP_REASONS, Limits, reasons_to_drop, write_side
from disco_mt.distill.shards import EMPTY, TOO_LONG, Indices, Plan


def assemble(
    directory: Path,
    dataset: Dataset,
    description: dict[str, Any],
    source: Side,
    plan: Plan,
    translations: Side,
) -> None:
    """Fill `directory`, dataset.json last. description: the dataset.json of `dataset`; source: of `plan`."""
    reasons = _reasons(plan, source, translations, Limits(**description.get("limits", {})))
    kept = np.flatnonzero(reasons == 0)
    counts = np.bincount(reasons, minlength=1 + len(DROP_REASONS))[1:].tolist()
    dropped = dict(zip(DROP_REASONS, counts, strict=True))
    if not len(kept):
        listed = ", ".join(f"{number:,} {reason}" for reason, number in dropped.items())
        raise UserError(f"no training pairs are left of {len(reasons):,}: {listed}; is the teacher trained?")
    text = dataset.text
    train = {
        "pairs": len(kept),
        "source": write_side(directory / "train.source", source, kept, text.source),
        "target": write_side(directory / "train.target", translations, plan.place[kept], text.target),
        "dropped": dropped,
    }
    files = _copy_others(dataset.path, directory, description)
    files |= {path.name: sha256(path) for path in directory.glob("train.*")}
    splits = {**description["splits"], "train": train}
    content = {**description, "splits": splits, "files": dict(sorted(files.items()))}
    write_text(directory / "dataset.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _reasons(plan: Plan, source: Side, translations: Side, limits: Limits) -> Indices:
    """For each pair 0 (kept), or 1 + the index of the first of DROP_REASONS, as for a raw corpus."""
    reasons = np.select([plan.place == EMPTY, plan.place == TOO_LONG], [1, 2], default=0)
    there = np.flatnonzero(plan.place >= 0)
    lengths = source.lengths[there], translations.lengths[plan.place[there]]
    reasons[there] = reasons_to_drop(*lengths, limits)
    return reasons


def _copy_others(data: Path, directory: Path, description: dict[str, Any]) -> dict[str, str]:
    """Copy the tokenizers, and every file of the other splits; returns the SHA-256 of the latter by name."""
    others = {name: hash_ for name, hash_ in description["files"].items() if not name.startswith("train.")}
    sides = [description["text"][side] for side in ("source", "target")]
    tokenizers = {side["file"]: side["sha256"] for side in sides}
    for name, expected in (others | tokenizers).items():
        with atomic_file(directory / name) as temporary:
            shutil.copyfile(data / name, temporary)
        if sha256(directory / name) != expected:
            raise UserError(
                f"{data / name} is not as it was prepared (its SHA-256 differs); prepare it again"
            )
    return others
