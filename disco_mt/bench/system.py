"""What is compared: a system is a model, the runtime it runs in, its precision, and how it decodes.

Which systems a run has follows from what it is given: a size with random weights, or trained models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from disco_mt.core.errors import UserError
from disco_mt.engine.select import PRECISIONS as ENGINE_PRECISIONS
from disco_mt.nn.config import ModelConfig, Stack

Runtime = Literal["ctranslate2", "plain", "incremental"]
Precision = Literal["fp32", "int8"]
Size = Literal["base", "desk"]
PRECISIONS: tuple[Precision, ...] = ("fp32", "int8")


@dataclass(frozen=True)
class Weights:
    """A model: a directory that was trained, or random numbers of the sizes of `config`."""

    name: str  # AT 6-6, DisCo 12-1, or the directory's name
    config: ModelConfig
    path: str = ""  # of a trained model; empty: random
    exported: str = ""  # the same weights as CTranslate2 wants them


@dataclass(frozen=True)
class System:
    """One row of every table."""

    weights: Weights
    runtime: Runtime
    precision: Precision = "fp32"
    beam: int = 5
    """Beam search of autoregressive models; 1 is greedy."""
    length_beam: int = 5
    """K of the others."""
    iterations: int = 10
    """T: the most passes of easy-first, the passes of mask-predict."""
    shortlist: str = ""
    """File of a vocabulary shortlist."""

    @property
    def kind(self) -> str:
        """disco, cmlm or autoregressive."""
        return self.weights.config.kind

    @property
    def decoding(self) -> str:
        """How it decodes, in the words of the tables."""
        return f"{self._search}{' shortlist' if self.shortlist else ''}"

    @property
    def _search(self) -> str:
        match self.kind:
            case "autoregressive":
                return "greedy" if self.beam == 1 else f"beam {self.beam}"
            case "cmlm":
                return f"mask-predict T={self.iterations} K={self.length_beam}"
            case "disco":
                return f"easy-first K={self.length_beam}"
        raise AssertionError(self.kind)

    @property
    def label(self) -> str:
        """The name of the row."""
        runtime = {"ctranslate2": "CTranslate2", "plain": "plain torch", "incremental": "incremental"}
        return f"{self.weights.name} {self.decoding}, {self.precision}, {runtime[self.runtime]}"


def shape(config: ModelConfig) -> str:
    """Encoder and decoder layers: 6-6, 12-1."""
    return f"{config.encoder.layers}-{config.decoder.layers}"


def sized(size: Size, kind: str, layers: tuple[int, int] | None = None) -> ModelConfig:
    """The paper's base model, or one that a desk trains: 3+3 layers, 128 wide, vocabulary 8,000."""
    if size == "base":
        config = ModelConfig(kind=kind)
    else:
        stack = Stack(3, 4, 512)
        config = ModelConfig(kind, 128, stack, stack, source_vocabulary=8000, target_vocabulary=8000)
    if layers is None:
        return config
    encoder, decoder = (
        replace(side, layers=number)
        for side, number in zip((config.encoder, config.decoder), layers, strict=True)
    )
    return replace(config, encoder=encoder, decoder=decoder)


def random_systems(size: Size) -> list[System]:
    """All systems at one size; deep encoder and shallow decoder (Kasai et al. 2021) stand beside."""
    shapes = (None, (12, 1)) if size == "base" else (None,)
    found = []
    for layers in shapes:
        configs = {kind: sized(size, kind, layers) for kind in ("autoregressive", "disco", "cmlm")}
        names = {"autoregressive": "AT", "disco": "DisCo", "cmlm": "CMLM"}
        models = [Weights(f"{names[kind]} {shape(config)}", config) for kind, config in configs.items()]
        found += [system for model in models for system in systems_of(model)]
    return found


LENGTH_BEAMS = 5, 3, 1
"""K: the paper's, what a trained model loses nothing with (docs/speed.md), and the least work there is."""


def systems_of(weights: Weights) -> list[System]:
    """What can be done with one model."""
    match weights.config.kind:
        case "autoregressive":
            return [System(weights, "ctranslate2", p, beam) for p in PRECISIONS for beam in (5, 1)]
        case "cmlm":
            return [System(weights, "plain", iterations=passes) for passes in (4, 10)]
        case "disco":
            fast = [
                System(weights, "incremental", precision, length_beam=beam)
                for precision in PRECISIONS
                if precision in ENGINE_PRECISIONS["incremental"]
                for beam in LENGTH_BEAMS
            ]
            return [System(weights, "plain"), *fast]
    raise AssertionError(weights.config.kind)


def with_shortlist(systems: Sequence[System], shortlist: str) -> list[System]:
    """The systems, and those that can use a shortlist once more, with it."""
    found = []
    for system in systems:
        found.append(system)
        able = system.runtime == "ctranslate2" or (system.runtime == "incremental" and system.length_beam > 1)
        if shortlist and able:
            found.append(replace(system, shortlist=shortlist))
    return found


def choose(systems: Sequence[System], only: Sequence[str]) -> list[System]:
    """The systems whose label has all words of one of the `only` (none given: all of them)."""
    if not only:
        return list(systems)
    for wanted in only:
        if not any(_matches(system, wanted) for system in systems):
            labels = "\n  ".join(system.label for system in systems)
            raise UserError(f"--only {wanted!r} fits none of the systems; there are:\n  {labels}")
    return [system for system in systems if any(_matches(system, wanted) for wanted in only)]


def _matches(system: System, wanted: str) -> bool:
    words = system.label.replace(",", "").lower().split()
    return all(word in words for word in wanted.replace(",", "").lower().split())
