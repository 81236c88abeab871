"""Train what a recipe describes: here dataset, model, objective and dev scorer come together."""

from __future__ import annotations

from pathlib import Path

from disco_mt.data.dataset import Dataset
from disco_mt.evaluation.dev import dev_scorer
from disco_mt.models.build import build_model
from disco_mt.objectives.build import build_objective
from disco_mt.recipes.recipe import Recipe
from disco_mt.training.loop import train
from disco_mt.training.processes import own_device, together
from disco_mt.training.session import TrainingResult
from disco_mt.translator import check_device


def train_recipe(
    recipe: Recipe,
    data: Path,
    out: Path,
    *,
    resume: bool = False,
    device: str = "cpu",
    quiet: bool = False,
) -> TrainingResult:
    """Train on the dataset directory `data` into the run directory `out`, anew or from where it stopped.

    If torchrun started this process among others, they train together.
    """
    dataset = Dataset.open(data)
    recipe = recipe.for_data(dataset)
    own = own_device(str(check_device(device)))
    with together(device) as processes:
        return train(
            out,
            build_model(recipe.model, recipe.training.seed).to(own),
            dataset,
            build_objective(recipe.model.kind, recipe.objective),
            dev_scorer(dataset, recipe.decoding, own),
            recipe.training,
            recipe.as_dict(),
            resume=resume,
            quiet=quiet,
            processes=processes,
        )
