"""What makes a system: one record that everything else asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.reranking import ScoreTargets
from disco_mt.decoding.results import Hypothesis
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.objective import Learn

Order = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""(log-probs of the first pass, words, EOS, pinned words or None) -> who sees whom in later passes."""


@dataclass(frozen=True)
class Decoder:
    """One inference algorithm of a system."""

    run: Callable[[Any, Tensor, DecodingOptions, DecodeRequest], list[Hypothesis[int]]]
    """(model, source (batch, src) with EOS, options, request) -> one hypothesis per sentence."""
    options: tuple[str, ...] = ()
    """The DecodingOptions it reads: what cached translations are named by, what tables show."""
    efforts: tuple[str, ...] = ("normal",)
    pins: bool = False
    """Can it translate around pinned words?"""
    trace: bool = False
    """Does it record its passes?"""
    order: Order | None = None
    """For Algorithm 1: the visibility it refines with, fixed, so that the incremental engine can run it."""


@dataclass(frozen=True)
class System:
    """A kind of model, with all that is special about it. See docs/adding-a-system.md."""

    name: str
    """`model.kind` in recipes and config.json."""
    label: str
    """In tables and plots."""
    build: Callable[[ModelConfig], TranslationModel]
    objectives: dict[str, Learn]
    """What it can be trained with; the first is the default."""
    decoders: dict[str, Decoder]
    """How it can decode; the first is the default."""
    score: ScoreTargets | None = None
    """How it scores given targets in one pass; None: it cannot rerank."""
    model_options: tuple[str, ...] = ()
    """Options of ModelConfig that only this system has."""
    engines: tuple[str, ...] = field(default=("reference",))
    """The engines that can run it on a CPU (engine/select.py); the first is the default."""
    bench: dict[str, tuple[DecodingOptions, ...]] = field(default_factory=dict)
    """What `disco bench` times, by engine; empty: the default decoder in the reference engine, of trained
    models only."""
