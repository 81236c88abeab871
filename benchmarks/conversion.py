"""Training speed of a converted teacher: target words per second, variants in turn on the same batches.

    python -m benchmarks.conversion --teacher TEACHER --data DATA [--threads 1] [--precision bf16]

Variants: the frozen encoder computed or its states kept on disk, words alone or the teacher's distribution
beside them. Each round trains every variant for one update of each batch size class, so that a machine that
changes its mind changes it for all; the median round counts.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch

from disco_mt.data.dataset import Dataset, Side, Split
from disco_mt.nn.directory import read_config
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.build import build_model, load_weights
from disco_mt.systems.objective import build_objective
from disco_mt.training.encoder_states import keep_encoder_states
from disco_mt.training.gradients import GradientAccumulator, normalise
from disco_mt.training.optimizer import build_optimizer
from disco_mt.training.recipe import load_recipe
from disco_mt.training.speed import keep_freed_memory
from disco_mt.training.updates import Plan, Position

UPDATES = 2  # per variant and round
SENTENCES = 5000  # of the training data


def main() -> None:
    """Print a table."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--teacher", required=True, type=Path)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--recipe", default="opus.disco")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    variants = _variants(arguments)
    rates: dict[str, list[float]] = {name: [] for name in variants}
    for round_ in range(arguments.rounds + 1):
        for name, run in variants.items():
            rate = run(round_)
            if round_:  # the first warms up
                rates[name].append(rate)
    print("| variant | target words/s | |\n|---|---:|---:|")
    base = statistics.median(next(iter(rates.values())))
    for name, values in rates.items():
        middle = statistics.median(values)
        print(f"| {name} | {middle:,.0f} | {middle / base:.2f} x |")


def _variants(arguments: argparse.Namespace) -> dict[str, Callable[[int], float]]:
    """What is measured, by name: (round) -> words per second."""
    dataset = Dataset.open(arguments.data)
    recipe = load_recipe(arguments.recipe).for_data(dataset)
    options = replace(recipe.training, precision=arguments.precision)
    teacher = load_weights(read_config(arguments.teacher))
    assert isinstance(teacher, Autoregressive)
    teacher.requires_grad_(False)
    model = build_model(recipe.model)
    model.freeze(options.freeze)
    model.train()
    optimizer = build_optimizer(model, options)
    split = _first(dataset.splits["train"], SENTENCES)
    plan = Plan(split, options.batch_tokens, options.max_tokens, options.seed)
    updates = list(islice(plan.updates(Position()), UPDATES * (arguments.rounds + 1)))
    folder = Path(tempfile.mkdtemp(prefix="disco-states-"))
    states = keep_encoder_states(model, split, f"first {SENTENCES}", folder, options.precision)
    soft = replace(recipe.objective, teacher=str(arguments.teacher), teacher_weight=0.5)
    objectives = {
        "words": build_objective(recipe.model.kind, recipe.objective),
        "words and the teacher's distribution": build_objective(recipe.model.kind, soft, teacher),
    }

    def variant(objective: str, kept: bool) -> Callable[[int], float]:
        accumulator = GradientAccumulator(model, objectives[objective], options.precision)
        accumulator.states = states if kept else None

        def run(round_: int) -> float:
            began, words = time.perf_counter(), 0
            for number, update in enumerate(updates[round_ * UPDATES : (round_ + 1) * UPDATES]):
                sums = accumulator.accumulate(split, update, options.seed, number)
                normalise(model.parameters(), sums.words, options.clip_norm)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                words += sums.words
            return words / (time.perf_counter() - began)

        return run

    return {
        f"{objective}; encoder {'states kept' if kept else 'computed'}": variant(objective, kept)
        for objective in objectives
        for kept in (False, True)
    }


def _first(split: Split, sentences: int) -> Split:
    """The first so many pairs."""
    sides = []
    for side in (split.source, split.target):
        offsets = side.offsets[: sentences + 1]
        sides.append(Side(side.ids[: offsets[-1]], offsets))
    return replace(split, source=sides[0], target=sides[1])


if __name__ == "__main__":
    main()
