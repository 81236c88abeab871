"""Where a run stands, apart from weights and optimizer: all that a checkpoint's state.json keeps of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from disco_mt.evaluation.dev import DevScore
from disco_mt.training.dev import Scored
from disco_mt.training.updates import Position


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
    scaler: dict[str, float] = field(default_factory=dict)  # of float16's losses, see precision.py

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it; Python writes floats so that they come back exactly."""
        return asdict(self)

    @staticmethod
    def from_dict(content: dict[str, Any]) -> State:
        """The inverse of `to_dict`."""
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
