"""Dev scores: how good the model is after so many updates, and what follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from disco_mt.evaluation.dev import DevScore


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
