"""Train what a recipe describes: here dataset, model, objective and dev scorer come together."""

from __future__ import annotations

from pathlib import Path

import torch

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory, refuse_existing
from disco_mt.data.dataset import Dataset
from disco_mt.evaluation.dev import dev_scorer
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.directory import check_fits, read_config, save_model
from disco_mt.nn.find import check_device, find_model
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.build import build_model, load_weights
from disco_mt.systems.objective import build_objective
from disco_mt.training.job import TrainingJob
from disco_mt.training.loop import TrainingResult, train
from disco_mt.training.processes import init_distributed, own_device
from disco_mt.training.recipe import Recipe
from disco_mt.training.rundir import card, read_run
from disco_mt.training.start import start_from


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
    model = build_model(recipe.model, recipe.training.seed)
    teacher = _teacher(recipe, dataset, own) if recipe.objective.teacher else None
    described = recipe.as_dict()
    if recipe.start.model:
        started = read_run(out)["recipe"]["start"] if resume else start_from(model, recipe.start, dataset)
        described |= {"start": started}
    if teacher is not None and recipe.training.encoder_states and not resume:
        _check_same_encoder(recipe.objective.teacher, teacher, model)
    with init_distributed(device) as processes:
        job = TrainingJob(
            model.to(own),
            dataset,
            build_objective(recipe.model.kind, recipe.objective, teacher),
            dev_scorer(dataset, recipe.decoding, own),
            recipe.training,
            described,
        )
        return train(out, job, resume=resume, quiet=quiet, processes=processes)


def write_start(recipe: Recipe, data: Path, out: Path) -> None:
    """The model that a training would start from, as a model directory."""
    refuse_existing(out)
    dataset = Dataset.open(data)
    recipe = recipe.for_data(dataset)
    model = build_model(recipe.model, recipe.training.seed)
    model.freeze(recipe.training.freeze)
    described = recipe.as_dict()
    if recipe.start.model:
        described |= {"start": start_from(model, recipe.start, dataset)}
    with atomic_directory(out) as directory:
        text = dataset.text.save(directory)
        about = "The weights that a training starts from; nothing has been trained yet."
        save_model(directory, model, text, card(model, text, about), {"recipe": described})


def _teacher(recipe: Recipe, dataset: Dataset, device: str) -> Autoregressive:
    name = recipe.objective.teacher
    directory = read_config(find_model(name))
    check_fits(directory, "objective's teacher", dataset.path, dataset.description)
    teacher = load_weights(directory)
    if not isinstance(teacher, Autoregressive):
        raise UserError(
            f"objective.teacher must be an autoregressive model, but {name} is {teacher.config.kind}"
        )
    teacher.requires_grad_(False)
    return teacher.to(device)


def _check_same_encoder(name: str, teacher: TranslationModel, model: TranslationModel) -> None:
    """Encoder states that are kept are the student's: the teacher reads them, too."""
    its, ours = teacher.encoder.state_dict(), model.encoder.state_dict()
    if its.keys() != ours.keys() or not all(torch.equal(its[key].cpu(), ours[key]) for key in ours):
        raise UserError(
            f"training.encoder_states are read by objective.teacher, too, but {name} has another encoder; "
            "start from the teacher (start.model), or leave encoder_states out"
        )
