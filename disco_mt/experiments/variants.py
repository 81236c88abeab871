"""Models that an experiment trains itself: a suite's system with another batch size or less data.

FOLDER/variants/HASH/{run,model}: resumable and never made twice, like the stages of a suite. Experiments
share them: the largest size of each is the same training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from disco_mt.core.errors import UserError
from disco_mt.data.dataset import Dataset
from disco_mt.experiments.decode import Lab
from disco_mt.suites.stages import digest, non_defaults
from disco_mt.training.averaging import NUMBERS, average, best_number, score_means
from disco_mt.training.options import TrainingOptions
from disco_mt.training.recipe import Recipe
from disco_mt.training.rundir import is_run
from disco_mt.training.train import train_recipe


@dataclass(frozen=True)
class Variant:
    """A recipe that differs from its suite's, and the data to train it on."""

    name: str
    recipe: Recipe
    data: Path


def train_variant(lab: Lab, variant: Variant) -> str:
    """Train and average, unless it has been done; returns the name under which the lab decodes it."""
    data, number = (
        Dataset.open(variant.data).fingerprint,
        averaged(variant.recipe.training, lab.suite.average),
    )
    inputs = {"recipe": non_defaults(variant.recipe), "data": data, "average": number}
    folder = lab.workspace.folder / "variants" / digest(inputs)
    run, model = folder / "run", folder / "model"
    if not model.exists():
        result = train_recipe(
            variant.recipe, variant.data, run, resume=is_run(run), device=lab.device, quiet=lab.quiet
        )
        if result.signal:
            raise UserError(f"the training of {run} was stopped; the same command goes on with it")
        average(run, model, number or best_number(list(score_means(run))))
    lab.variants[variant.name] = model
    return variant.name


def averaged(options: TrainingOptions, average: int) -> int:
    """Checkpoints to average: after a cooldown the last, else as many as in the suite (0: chosen on dev)."""
    return 1 if options.cooldown_steps else average


def for_updates(options: TrainingOptions, steps: int, average: int) -> TrainingOptions:
    """So many updates, however many epochs they are, with warm-up, cooldown and dev scores to match.

    average: checkpoints that the suite averages. Without a cooldown twice as many are scored.
    """
    scores = 1 if options.cooldown_steps else 2 * (average or max(NUMBERS))
    return replace(
        options,
        max_steps=steps,
        max_epochs=0,
        patience=0,
        warmup_steps=min(options.warmup_steps, max(1, steps // 4)),
        cooldown_steps=options.cooldown_steps * steps // options.max_steps,
        dev_every=max(1, steps // scores),
    )


def with_batch(options: TrainingOptions, tokens: int) -> TrainingOptions:
    """Another number of tokens an update; what goes through the model at once cannot be more."""
    return replace(options, batch_tokens=tokens, max_tokens=min(options.max_tokens, tokens))
