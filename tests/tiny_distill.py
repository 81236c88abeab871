"""A teacher that has hardly learnt anything and a small dataset; what several tests of distillation share."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from disco_mt.core.special_tokens import PAD
from disco_mt.data.batches import collate
from disco_mt.data.dataset import Dataset
from disco_mt.data.prepare import PrepareOptions, prepare
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.nn.directory import save_model
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.build import build_model

WORDS = [f"w{number}" for number in range(20)]
SETTINGS = ("--beam", "3", "--shard-size", "16", "--batch-tokens", "128", "--threads", "1", "--quiet")


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def sentences(number: int, seed: int) -> list[str]:
    """Invented ones; half of them come twice."""
    draw = random.Random(seed)
    new = [" ".join(draw.choices(WORDS, k=draw.randint(1, 12))) for _ in range(number - number // 3)]
    lines = new + new[: number // 3]
    draw.shuffle(lines)
    return lines


def make_dataset(
    out: Path, languages: tuple[str, str] = ("en", "de"), pairs: int = 300, **more: Any
) -> Dataset:
    """The translation of a sentence is its words in capitals; `more` goes to prepare."""
    inputs = out.parent / f"{out.name}.text"
    inputs.mkdir(parents=True)
    files = {}
    for seed, (split, number) in enumerate({"": pairs, "valid_": 7, "test_": 5}.items()):
        lines = sentences(number, seed)
        files[f"{split}source"] = write(inputs / f"{split}source", lines)
        files[f"{split}target"] = write(inputs / f"{split}target", [line.upper() for line in lines])
    prepare(
        PrepareOptions(
            **files,
            out=out,
            source_language=languages[0],
            target_language=languages[1],
            **({"processing": "pretokenized"} | more),
        ),
        quiet=True,
    )
    return Dataset.open(out)


def make_teacher(
    out: Path, dataset: Dataset, extra: dict[str, Any] | None = None, steps: int = 0, **changes: Any
) -> Path:
    """A tiny model directory, autoregressive unless `changes` says otherwise, trained for some steps."""
    size = dataset.text.source.vocabulary_size, dataset.text.target.vocabulary_size
    settings: dict[str, Any] = {
        "kind": "autoregressive",
        "width": 32,
        "encoder": Stack(1, 2, 32),
        "decoder": Stack(1, 2, 32),
        "attention_init": "xavier",
        "dropout": 0.0,
        "max_source": 64,
        "max_target": 64,
        "length_classes": 40,
        "source_vocabulary": size[0],
        "target_vocabulary": size[1],
    }
    model = build_model(ModelConfig(**(settings | changes)), 1)
    if isinstance(model, Autoregressive):
        learn(model, dataset, steps)
    out.mkdir(parents=True)
    save_model(out, model, dataset.text.save(out), "A teacher.", extra or {})
    return out


def learn(model: Autoregressive, dataset: Dataset, steps: int) -> None:
    """Enough that sentences end and that no special token is likely, not enough to be always right."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(steps):
        batch = collate(dataset.splits["train"], np.arange(step * 32, step * 32 + 32) % 256)
        real = batch.target != PAD
        hidden = model.decode(batch.target, model.encode(batch.source))
        loss = -model.word_log_probs(hidden[real], batch.target[real]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def spawn(teacher: Path, data: Path, out: Path) -> subprocess.Popen[bytes]:
    """`disco distill` as a process of its own."""
    command = [sys.executable, "-m", "disco_mt", "distill", *SETTINGS]
    command += ["--model", str(teacher), "--data", str(data), "--out", str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)


def contents(directory: Path) -> dict[str, bytes]:
    """Every file by name, but for the provenance, which has a date."""
    files = [path for path in directory.rglob("*") if path.is_file() and path.name != "provenance.json"]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}
