"""The models with the best dev BLEU, each a whole model directory: RUN/best/step-00001234/."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from disco_mt.core.files import atomic_directory
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.directory import save_model
from disco_mt.training.checkpoints import step_directories, step_name, sync, writing
from disco_mt.training.dev import Scored
from disco_mt.training.job import TrainingJob

BEST = "best"


def save_best(run: Path, job: TrainingJob, scored: Scored) -> None:
    """Write a model directory with its dev score."""
    path = run / BEST / step_name(scored.step)
    with writing(path), atomic_directory(path) as directory:
        description = job.dataset.text.save(directory)
        dev = {"step": scored.step, "epoch": scored.epoch, "dev": asdict(scored.score)}
        about = (
            f"After {scored.step:,} updates (epoch {scored.epoch}) it scores {scored.score.bleu:.2f} BLEU on "
            f"the dev set, in {scored.score.steps:.2f} decoder passes per sentence on average."
        )
        text = card(job.model, description, about)
        save_model(directory, job.model, description, text, {**dev, "recipe": job.recipe})
        sync(directory)


def remove_others(run: Path, keep: Sequence[Scored]) -> None:
    """Delete the models that are no longer among the best. Comes after the checkpoint that says so."""
    names = {step_name(scored.step) for scored in keep}
    for path in step_directories(run / BEST):
        if path.name not in names:
            shutil.rmtree(path, ignore_errors=True)


def card(model: TranslationModel, text: dict[str, Any], about: str) -> str:
    """A model card with the header that model hubs read."""
    source, target = text["source"]["language"], text["target"]["language"]
    config = model.config
    return (
        f"---\nlanguage:\n- {source}\n- {target}\nlibrary_name: disco-mt\npipeline_tag: translation\n---\n\n"
        f"# {config.kind} {source}-{target}\n\n{about}\n\n"
        f"{config.encoder.layers} encoder and {config.decoder.layers} decoder layers, width {config.width}, "
        f"{model.count_parameters():,} parameters. The recipe stands in config.json.\n\n"
        f'    disco translate --model . "..."\n'
    )
