"""A corpus and a DisCo so small that a run takes a fraction of a second.

As a script it trains, so that tests can stop a real process, or start several that train together:
tiny_run.py RUN [resume] [die:FILE] [kill:RANK:BATCH] [term:RANK:BATCH] [steady] [together | writing] [quiet]
[frozen:FOLDER].
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from disco_mt.core.special_tokens import NUM_SPECIAL, SPECIAL_TOKENS
from disco_mt.data.dataset import Dataset, Side, Split
from disco_mt.evaluation.dev import DevScore, Scorer
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import Length, ModelConfig, Stack
from disco_mt.nn.losses import Objective
from disco_mt.nn.objective import ObjectiveOptions
from disco_mt.systems.build import build_model
from disco_mt.systems.objective import build_objective
from disco_mt.text.pair import TextPair
from disco_mt.text.tokenizer import Tokenizer
from disco_mt.training.checkpoints import step_directories
from disco_mt.training.job import TrainingJob
from disco_mt.training.loop import TrainingResult, train
from disco_mt.training.options import TrainingOptions
from disco_mt.training.processes import ALONE, Processes, init_distributed, rank, restarted
from disco_mt.training.rundir import read_log

VOCABULARY = 40
RECIPE: dict[str, Any] = {"objective": "disco"}
# 70 pairs make ten batches of 64 tokens, three per update: four updates per epoch, the last of one batch.
OPTIONS = TrainingOptions(
    batch_tokens=192,
    max_tokens=64,
    max_steps=11,
    learning_rate=1e-2,
    warmup_steps=4,
    save_every=5,
    log_every=3,
)
# Nine batches, four an update: two processes have two each, and in the last of an epoch the second has none.
TOGETHER = replace(OPTIONS, batch_tokens=280, max_tokens=70, max_steps=50, save_every=7, log_every=1)
TOGETHER_FROZEN = replace(TOGETHER, freeze=("encoder",), max_steps=12, dev_every=100)
# A checkpoint after every update: half of the time is spent on writing.
WRITING = replace(OPTIONS, max_steps=60, save_every=1)


def dataset(directory: Path, pairs: int = 70) -> Dataset:
    """Random words; the translation of a sentence is the sentence."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "dataset.json").write_text("{}")
    random = np.random.default_rng(0)
    lengths = random.integers(2, 12, pairs)
    ids = random.integers(NUM_SPECIAL, VOCABULARY, lengths.sum()).astype(np.uint16)
    side = Side(ids, np.concatenate([[0], lengths.cumsum()]))
    words = [*SPECIAL_TOKENS, *(f"w{number}" for number in range(NUM_SPECIAL, VOCABULARY))]
    text = TextPair(
        Tokenizer.from_vocabulary(words, "en"), Tokenizer.from_vocabulary(words, "de"), joint=True
    )
    return Dataset(directory, text, {"train": Split(directory, "train", side, side)})


def model(
    seed: int = 1, dropout: float = 0.1, width: int = 16, positions: int = 16, **changes: Any
) -> TranslationModel:
    """Two layers in all, with dropout wherever there can be any."""
    stack = Stack(layers=1, heads=2, hidden=32)
    config = ModelConfig(
        width=width,
        encoder=stack,
        decoder=stack,
        dropout=dropout,
        attention_dropout=dropout,
        activation_dropout=dropout,
        max_source=positions,
        max_target=positions,
        length_classes=16,
        source_vocabulary=VOCABULARY,
        target_vocabulary=VOCABULARY,
        **changes,
    )
    return build_model(config, seed)


def frozen_model(seed: int = 1, **changes: Any) -> TranslationModel:
    """One whose encoder can stay as it is: the length predictor is beside it, and so are the target words."""
    options = {"dropout": 0.0, "length": Length("pooled", True, 1.0, 0.0, 1.0), "tying": "decoder"}
    return model(seed, **(options | changes))


def score(model: TranslationModel) -> DevScore:
    """Some number that depends on the weights; it draws random numbers, which must not matter."""
    torch.rand(3)
    return DevScore(bleu=float(model.output.weight.sum()) % 50, steps=2.5, seconds=0.1)


OBJECTIVE: Objective = build_objective("disco", ObjectiveOptions())


def go(
    run: Path,
    options: TrainingOptions = OPTIONS,
    objective: Objective = OBJECTIVE,
    scorer: Scorer = score,
    resume: bool = False,
    recipe: dict[str, Any] = RECIPE,
    trained: TranslationModel | None = None,
    processes: Processes = ALONE,
    quiet: bool = True,
) -> TrainingResult:
    """Train the tiny model."""
    data = dataset(run.parent / f"data{processes.rank or ''}")
    job = TrainingJob(trained or model(), data, objective, scorer, options, recipe)
    return train(run, job, resume=resume, quiet=quiet, processes=processes)


def last(run: Path) -> dict[str, torch.Tensor]:
    """Weights and optimizer of the newest checkpoint; copies, because a mapped file may change."""
    path = step_directories(run / "checkpoints")[-1]
    tensors = {**load_file(path / "model.safetensors"), **load_file(path / "optimizer.safetensors")}
    return {name: tensor.clone() for name, tensor in tensors.items()}


def story(run: Path) -> list[dict[str, Any]]:
    """The log without times, starts and ends."""
    timed = {"seconds", "tokens_per_second"}
    return [
        {key: value for key, value in entry.items() if key not in timed}
        for entry in read_log(run)
        if entry["kind"] in ("train", "dev")
    ]


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def _die_while_writing(path: Path) -> None:
    """Make the rename that would complete `path` a kill -9."""
    rename = os.replace

    def replace(source: Path, target: Path) -> None:
        if target == path:
            os.kill(os.getpid(), signal.SIGKILL)
        rename(source, target)

    os.replace = replace  # type: ignore[assignment]


def _signal_at(flag: str) -> Objective:
    """The objective, and a signal to this process at a batch; but not again after a restart."""
    name, who, batch = flag.split(":")
    number = signal.SIGKILL if name == "kill" else signal.SIGTERM
    mine = int(who) == rank() and not restarted()
    count = iter(range(1, 1_000_000))

    def objective(model: TranslationModel, batch_: Any, key: int) -> Any:
        print("batch", flush=True)
        if next(count) == int(batch) and mine:
            os.kill(os.getpid(), number)
        return OBJECTIVE(model, batch_, key)

    return objective


def main(run: Path, *flags: str) -> None:
    """Train, saying when each batch begins."""
    objective = _signal_at("kill:0:0")
    for flag in flags:
        if flag.startswith("die:"):
            _die_while_writing(run / flag.removeprefix("die:"))
        if flag.startswith(("kill:", "term:")):
            objective = _signal_at(flag)
    trained = model(dropout=0.0) if "steady" in flags else model()
    options = TOGETHER if "together" in flags else WRITING if "writing" in flags else OPTIONS
    for flag in flags:
        if flag.startswith("frozen:"):
            trained = frozen_model(seed=1 + 10 * rank() * ("resume" in flags))
            options = replace(TOGETHER_FROZEN, encoder_states=flag.removeprefix("frozen:"))
    torch.set_num_threads(1)
    with init_distributed("cpu") as processes:
        result = go(
            run,
            options,
            objective,
            resume="resume" in flags,
            trained=trained,
            processes=processes,
            quiet="quiet" in flags,
        )
    sys.exit(0 if result.signal is None else 128 + result.signal)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
