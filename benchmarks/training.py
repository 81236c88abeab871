"""Training speed: target words per second, and how near it comes to the machine's best matrix product.

    python -m benchmarks.training [--threads 1] [--size desk] [--precision bf16] [--optimizer muon]
                                  [--seconds 20] [--profile]

The share is (floating-point operations of an update's matrix products) / (its time) / (operations per second
of a large square sgemm on the same threads), of the quickest run of each, measured in turn. Counted are the
products that the mathematics asks for, forward and backward, attention and padding included; nothing that is
computed twice, no softmax, LayerNorm, GELU, dropout or optimizer, all of which take time. An update is what
training does: batch, losses, gradients, clipping, the optimizer's step.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import get_args

import numpy as np
import torch

from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.data.batches import collate
from disco_mt.data.dataset import Side, Split
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.nn.objective import ObjectiveOptions
from disco_mt.systems.build import build_model
from disco_mt.systems.objective import build_objective
from disco_mt.training.gradients import GradientAccumulator, normalise
from disco_mt.training.optimizer import build_optimizer
from disco_mt.training.options import OptimizerName, TrainingOptions
from disco_mt.training.speed import keep_freed_memory
from disco_mt.training.updates import Plan, Position, Update

BATCHES = 3  # different ones, measured in turn
SQUARE = 2048
STACK = Stack(layers=3, heads=4, hidden=512)
DESK = ModelConfig(
    width=128,
    encoder=STACK,
    decoder=STACK,
    dropout=0.2,
    max_source=128,
    max_target=128,
    length_classes=128,
    source_vocabulary=6000,
    target_vocabulary=6000,
)


@dataclass(frozen=True)
class Size:
    """A model, the tokens of a batch, and what share is wanted of it."""

    model: ModelConfig
    tokens: int
    words: int  # mean length of a sentence
    wanted: float


SIZES = {
    "desk": Size(DESK, tokens=8192, words=14, wanted=0.5),
    "desk-2k": Size(DESK, tokens=2048, words=14, wanted=0.5),  # as the desk suites train it: small updates
    "base": Size(ModelConfig(), tokens=2048, words=25, wanted=0.6),
}


def corpus(vocabulary: int, words: int, pairs: int = 20_000) -> Split:
    """Random pairs whose lengths vary as those of sentences do, and whose two sides are of like length."""
    random = np.random.default_rng(0)
    source = np.clip(random.gamma(8, words / 8, pairs).astype(np.int64), 2, 4 * words)
    target = np.clip(source + np.rint(random.normal(0, 1.5, pairs)).astype(np.int64), 2, 4 * words)
    sides = [
        Side(
            random.integers(NUM_SPECIAL, vocabulary, lengths.sum()).astype(np.uint16),
            np.concatenate([[0], lengths.cumsum()]),
        )
        for lengths in (source, target)
    ]
    return Split(Path(), "train", *sides)


def operations(config: ModelConfig, sentences: int, source: int, target: int, words: int) -> int:
    """Floating-point operations of all products of one batch, forward and backward.

    source, target: columns of the batch, padding and EOS included; words: those to be predicted. A product of
    (n, a) and (a, b) takes 2nab, and its two gradients as much each: six for each weight and row.
    """
    width, with_length = config.width, config.kind != "autoregressive"
    slots = sentences * (source + with_length)  # rows of the encoder, the length slot among them
    rows, memory = sentences * target, sentences * source

    def stack(layers: int, hidden: int, attentions: int) -> int:
        """Weights that every row meets: queries, output and feed-forward."""
        return layers * (attentions * 2 * width**2 + 2 * width * hidden)

    encoder, decoder = config.encoder, config.decoder
    weights = slots * (stack(encoder.layers, encoder.hidden, 1) + encoder.layers * 2 * width**2)
    weights += rows * (stack(decoder.layers, decoder.hidden, 2) + decoder.layers * 2 * width**2)
    weights += memory * decoder.layers * 2 * width**2  # keys and values of the source
    weights += words * config.target_vocabulary * width
    weights += sentences * config.length_classes * width * with_length
    # Attention: scores and mixture, 2 products of (query, width) by (width, key) in all heads together.
    met = encoder.layers * (source + with_length) ** 2 + decoder.layers * target * (target + source)
    return 6 * weights + 3 * 2 * 2 * width * sentences * met


def sgemm(size: int) -> Callable[[], torch.Tensor]:
    """A square product."""
    left, right, out = (torch.randn(size, size) for _ in range(3))
    return lambda: torch.mm(left, right, out=out)


class Trainer:
    """The same updates again and again, as training makes them."""

    def __init__(self, size: Size, kind: str, precision: str, optimizer: OptimizerName) -> None:
        self.config = replace(size.model, kind=kind)
        tokens = size.tokens
        self.options = TrainingOptions(batch_tokens=tokens, max_tokens=tokens, optimizer=optimizer)
        self.model = build_model(self.config).train()
        self.optimizer = build_optimizer(self.model, self.options)
        self.accumulator = GradientAccumulator(
            self.model, build_objective(kind, ObjectiveOptions()), precision
        )
        split = corpus(self.config.target_vocabulary, size.words)
        self.plan = Plan(split, size.tokens, size.tokens, seed=1)
        self.updates = list(islice(self.plan.updates(Position()), BATCHES))

    def run(self, update: Update) -> int:
        """One update; returns its target words."""
        sums = self.accumulator.accumulate(self.plan.split, update, seed=1, step=1)
        normalise(self.model.parameters(), sums.words, self.options.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return sums.words

    def operations(self, update: Update) -> int:
        """Those of its products."""
        ((_, indices),) = update.batches
        batch = collate(self.plan.split, indices)
        eos = len(batch.target) if self.config.kind == "autoregressive" else 0  # which it predicts, too
        columns = batch.source.shape[1], batch.target.shape[1]
        return operations(self.config, len(batch.source), *columns, batch.target_words + eos)


@dataclass(frozen=True)
class Speed:
    """Of the quickest of several runs of each update, and of the quickest square product."""

    words: float  # target words per second
    operations: float  # per second, in the products of updates
    best: float  # operations per second of the square product

    @property
    def share(self) -> float:
        """How near the updates come to the square product."""
        return self.operations / self.best


def measure(trainer: Trainer, seconds: float) -> Speed:
    """Updates and square products in turn, for so many seconds."""
    square = sgemm(SQUARE)
    for update in trainer.updates:
        trainer.run(update)
    quickest, quickest_square = [float("inf")] * BATCHES, float("inf")
    words = [0] * BATCHES
    ends = time.perf_counter() + seconds
    while time.perf_counter() < ends:
        for number, update in enumerate(trainer.updates):
            start = clock()
            words[number] = trainer.run(update)
            quickest[number] = min(quickest[number], clock() - start)
            start = clock()
            square()
            quickest_square = min(quickest_square, clock() - start)
    done = sum(trainer.operations(update) for update in trainer.updates)
    return Speed(sum(words) / sum(quickest), done / sum(quickest), 2 * SQUARE**3 / quickest_square)


KINDS_OF_WORK = {
    "matrix products": ("mm", "addmm", "addmm_", "bmm", "baddbmm"),
    "attention": (
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
    ),
    "GELU": ("gelu", "gelu_backward"),
    "LayerNorm": ("native_layer_norm", "native_layer_norm_backward"),
    "dropout and residual sums": ("random_", "clamp_", "addcmul", "mul"),
    "softmax of the loss": ("amax", "exp_", "sub_"),
    "sums over rows and of gradients": ("sum", "add", "add_"),
    "copies and zeros": ("copy_", "fill_", "zero_", "cat", "index", "index_put_", "index_select"),
    "AdamW": ("_fused_adamw_",),
}


def shares(trainer: Trainer, rounds: int = 5) -> dict[str, float]:
    """Where the time of updates goes, by kind of work, the greatest first."""
    with torch.profiler.profile() as profile:
        for update in trainer.updates * rounds:
            trainer.run(update)
    work = {f"aten::{name}": group for group, names in KINDS_OF_WORK.items() for name in names}
    found: dict[str, float] = {}
    for event in profile.key_averages():
        group = work.get(event.key, "all else")
        found[group] = found.get(group, 0.0) + event.self_cpu_time_total
    total = sum(found.values())
    return {name: found[name] / total for name in sorted(found, key=lambda name: -found[name])}


def clock() -> float:
    """Seconds; of the processor if there is one thread, so that other work on the machine matters less."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def main() -> None:
    """Print one line per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--size", choices=[*SIZES, "all"], default="all")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="of the products")
    parser.add_argument("--optimizer", choices=get_args(OptimizerName), default="adamw")
    parser.add_argument("--seconds", type=float, default=30, help="for each model")
    parser.add_argument("--profile", action="store_true", help="where the time goes, too")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()  # as training does
    for name, size in SIZES.items():
        for kind in ("disco", "autoregressive") if options.size in (name, "all") else ():
            trainer = Trainer(size, kind, options.precision, options.optimizer)
            found = measure(trainer, options.seconds)
            print(
                f"{name} {kind} {options.precision} {options.optimizer}: {found.words:,.0f} target words/s, "
                f"{found.operations / 1e9:.0f} GFLOP/s, "
                f"{found.share:.0%} of the sgemm of {SQUARE} ({found.best / 1e9:.0f} GFLOP/s); "
                f"wanted {size.wanted:.0%}; batches of {size.tokens:,} tokens, {options.threads} thread(s)",
                flush=True,
            )
            if options.profile:
                rows = shares(trainer, rounds=1 if name == "base" else 5).items()
                print("".join(f"    {share:6.1%}  {work}\n" for work, share in rows), end="", flush=True)


if __name__ == "__main__":
    main()
