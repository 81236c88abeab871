"""What a run trains, as one object: model, data, objective, dev scorer, options and recipe."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from disco_mt.core.errors import UserError
from disco_mt.data.dataset import Dataset, Split
from disco_mt.evaluation.dev import Scorer
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.losses import Objective
from disco_mt.training.options import TrainingOptions


@dataclass(frozen=True)
class TrainingJob:
    """A training. `recipe` is kept in run.json and in the models."""

    model: TranslationModel
    dataset: Dataset
    objective: Objective
    score: Scorer
    options: TrainingOptions
    recipe: dict[str, Any]

    @property
    def split(self) -> Split:
        """The training pairs."""
        return self.dataset.splits["train"]

    @property
    def device(self) -> str:
        """Where the model is."""
        return str(next(self.model.parameters()).device)

    def settings(self) -> dict[str, Any]:
        """What the weights depend on, by the names that recipes have for it."""
        tables = {"training": self.options.decisive(), "model": asdict(self.model.config)}
        named = {f"{table}.{key}": value for table, values in tables.items() for key, value in values.items()}
        settings = {**named, "data": self.dataset.fingerprint, "objective": self.recipe.get("objective")}
        as_json: dict[str, Any] = json.loads(json.dumps(settings))  # as a checkpoint's settings come back
        return as_json

    def about(self) -> dict[str, Any]:
        """What run.json says of it."""
        return {"recipe": self.recipe, "data": str(self.dataset.path.absolute())}

    def check_lengths(self) -> None:
        """A model has vectors for so many positions, and classes for so many lengths, and no more."""
        if not len(self.split):
            raise UserError(f"{self.split.directory} has no training pairs; prepare the dataset again")
        config = self.model.config
        source, target = int(self.split.source_lengths.max()) + 1, int(self.split.target_lengths.max()) + 1
        needed = {"max_source": ("source", source, source), "max_target": ("target", target, target)}
        if config.kind != "autoregressive":
            needed["length_classes"] = ("target", target, target + 1)  # class 0 is no length
        for name, (side, longest, size) in needed.items():
            if getattr(config, name) < size:
                raise UserError(
                    f"model.{name} must be at least {size}: the longest {side} sentence has {longest} "
                    f"tokens with its end, got {getattr(config, name)}; raise it, or prepare the data with a "
                    "smaller max_length"
                )
