"""Options of training objectives, and the signature of an objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from disco_mt.core.batch import Batch
from disco_mt.core.errors import UserError
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.losses import Losses


@dataclass(frozen=True)
class ObjectiveOptions:
    name: str = ""
    """disco, left-to-right, permutation, cloze, easy-first, mixture (disco models), cmlm, autoregressive;
    empty: the default of the model's system."""
    label_smoothing: float = 0.1
    left_to_right_share: float = 0.5
    """mixture only: the share of sentences trained left to right."""
    prefix_share: float = 0.0
    """mixture only: the share of sentences in which words see a prefix and random words after it; in the rest
    they see random words only."""
    teacher: str = ""
    """mixture only: an autoregressive model with the same tokenizers and encoder; left-to-right sentences
    learn its distribution."""
    teacher_weight: float = 0.0
    """mixture only: the weight of the teacher's distribution in the target."""

    def __post_init__(self) -> None:
        for name in ("label_smoothing", "left_to_right_share", "prefix_share", "teacher_weight"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"objective.{name} must be between 0 and 1, got {getattr(self, name)}")
        if self.name == "mixture" and self.left_to_right_share + self.prefix_share > 1:
            raise UserError(
                f"objective.left_to_right_share and objective.prefix_share must add up to at most 1, got "
                f"{self.left_to_right_share} and {self.prefix_share}"
            )
        if self.teacher_weight and not self.teacher:
            raise UserError("objective.teacher_weight needs objective.teacher, a model directory")


@dataclass(frozen=True)
class Learning:
    """The options of an objective, with its teacher loaded."""

    options: ObjectiveOptions
    teacher: TranslationModel | None = None

    @property
    def smoothing(self) -> float:
        return self.options.label_smoothing


Learn = Callable[[Any, Batch, int, Learning], Losses]
"""(model, batch, random key, learning) -> losses summed over the batch."""
