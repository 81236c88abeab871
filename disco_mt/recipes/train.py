"""Train what a recipe describes: here dataset, model, objective and dev scorer come together."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from disco_mt.data.dataset import Dataset, read_description
from disco_mt.errors import UserError
from disco_mt.evaluation.dev import dev_scorer
from disco_mt.files import sha256
from disco_mt.models.base import TranslationModel
from disco_mt.models.build import build_model
from disco_mt.models.config import ModelConfig
from disco_mt.models.directory import WEIGHTS, check_fits, load_tensors, load_weights, read_config, weights
from disco_mt.objectives.build import build_objective
from disco_mt.recipes.recipe import Recipe
from disco_mt.training.loop import train
from disco_mt.training.processes import own_device, together
from disco_mt.training.session import TrainingResult
from disco_mt.translator import check_device, find_model

# What can change during a model's life. A student may begin as its teacher: kinds differ in who sees whom,
# and in their weights only by the length predictor.
_CHANGEABLE = ("kind", "contextless", "dropout", "attention_dropout", "activation_dropout", "attention_init")


def train_recipe(
    recipe: Recipe,
    data: Path,
    out: Path,
    *,
    start: str = "",
    resume: bool = False,
    device: str = "cpu",
    quiet: bool = False,
) -> TrainingResult:
    """Train on the dataset directory `data` into the run directory `out`, anew or from where it stopped.

    start: a model whose weights are the first, instead of random ones.
    If torchrun started this process among others, they train together.
    """
    dataset = Dataset.open(data)
    recipe = recipe.for_data(dataset)
    own = own_device(str(check_device(device)))
    model = build_model(recipe.model, recipe.training.seed)
    described = recipe.as_dict() | (_take_weights(model, start, data) if start else {})
    with together(device) as processes:
        return train(
            out,
            model.to(own),
            dataset,
            build_objective(recipe.model.kind, recipe.objective),
            dev_scorer(dataset, recipe.decoding, own),
            recipe.training,
            described,
            resume=resume,
            quiet=quiet,
            processes=processes,
        )


def _take_weights(model: TranslationModel, start: str, data: Path) -> dict[str, Any]:
    """Give a model the weights of another, of the same vocabulary and sizes; says which they were.

    What the other has not, the length predictor of an autoregressive model, stays random.
    """
    directory = read_config(find_model(start))
    text = read_description(data, "dataset.json", "a dataset directory (made by `disco prepare`)")["text"]
    check_fits(directory, "model to start from", data, text)
    its, ours = (_fixed(config) for config in (directory.model, model.config))
    different = [
        f"model.{key} is {its[key]!r} there, {ours[key]!r} here" for key in ours if its[key] != ours[key]
    ]
    if different:
        raise UserError(
            f"the model to start from, {directory.path}, is another one: {'; '.join(different)}. Change the "
            "recipe, or start from random weights"
        )
    own, found = weights(model), weights(load_weights(directory))
    load_tensors(model, {name: found.get(name, own[name]) for name in own}, directory.path / WEIGHTS)
    return {"start": {"model": start, "weights_sha256": sha256(directory.path / WEIGHTS)}}


def _fixed(config: ModelConfig) -> dict[str, Any]:
    return {key: value for key, value in asdict(config).items() if key not in _CHANGEABLE}
