"""What a run trains, and where it stands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from disco_mt.core.errors import UserError
from disco_mt.data.dataset import Dataset, Split
from disco_mt.evaluation.dev import DevScore, Scorer
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.losses import Objective
from disco_mt.training.options import TrainingOptions
from disco_mt.training.updates import Position


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


@dataclass(frozen=True)
class Scored:
    """The dev score after `step` updates."""

    step: int
    epoch: int
    score: DevScore


def best(history: Sequence[Scored], number: int) -> list[Scored]:
    """The scores with the highest BLEU, best first; of equal ones the earlier."""
    return sorted(history, key=lambda scored: (-scored.score.bleu, scored.step))[:number]


def without_improvement(history: Sequence[Scored]) -> int:
    """How many scores have come since the best one."""
    if not history:
        return 0
    return len(history) - 1 - history.index(best(history, 1)[0])


@dataclass
class Window:
    """Sums since the last line of the log."""

    losses: dict[str, float] = field(default_factory=dict)
    words: int = 0
    updates: int = 0
    norms: float = 0.0
    seconds: float = 0.0  # spent on updates, not on scoring and saving

    def add(self, losses: dict[str, float], words: int, norm: float) -> None:
        """One more update."""
        for name, value in losses.items():
            self.losses[name] = self.losses.get(name, 0.0) + value
        self.words += words
        self.updates += 1
        self.norms += norm


@dataclass
class State:
    """Changes with every update. Nothing random is in it: every draw is keyed by seed and step."""

    step: int = 0
    position: Position = field(default_factory=Position)
    history: list[Scored] = field(default_factory=list)
    window: Window = field(default_factory=Window)
    seconds: float = 0.0  # of all sessions of the run
    skipped: int = 0  # updates whose gradient was not finite
    skipped_in_a_row: int = 0
    scaler: dict[str, float] = field(default_factory=dict)  # of float16's losses, see speed.py

    @staticmethod
    def from_dict(content: dict[str, Any]) -> State:
        """The inverse of `dataclasses.asdict`."""
        history = [
            Scored(entry["step"], entry["epoch"], DevScore(**entry["score"])) for entry in content["history"]
        ]
        simple = {name: content[name] for name in ("step", "seconds", "skipped", "skipped_in_a_row")}
        return State(
            **simple,
            position=Position(**content["position"]),
            history=history,
            window=Window(**content["window"]),
            scaler=content.get("scaler", {}),
        )
