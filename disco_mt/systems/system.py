"""The records that describe a system to the rest of the package."""

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
"""(log-probs of the first pass, words, EOS, pinned words or None) -> visibility in later passes."""


@dataclass(frozen=True)
class Decoder:
    """One inference algorithm of a system."""

    run: Callable[[Any, Tensor, DecodingOptions, DecodeRequest], list[Hypothesis[int]]]
    """(model, source (batch, src) with EOS, options, request) -> one hypothesis per sentence."""
    options: tuple[str, ...] = ()
    """The DecodingOptions it uses: for the names of cached translations, and for tables."""
    efforts: tuple[str, ...] = ("normal",)
    pins: bool = False
    """Does it support pinned words?"""
    trace: bool = False
    """Does it record its passes?"""
    order: Order | None = None
    """For Algorithm 1: the fixed visibility after the first pass, for the incremental engine."""


@dataclass(frozen=True)
class System:
    """A kind of model, with everything that is specific to it. See docs/adding-a-system.md."""

    name: str
    """`model.kind` in recipes and config.json."""
    label: str
    """The name in tables and plots."""
    build: Callable[[ModelConfig], TranslationModel]
    objectives: dict[str, Learn]
    """The first is the default."""
    decoders: dict[str, Decoder]
    """The first is the default."""
    score: ScoreTargets | None = None
    """Scores given targets in one pass; None: it cannot rerank."""
    model_options: tuple[str, ...] = ()
    """Options of ModelConfig that only this system has."""
    engines: tuple[str, ...] = field(default=("reference",))
    """The engines that can run it on a CPU (engine/select.py); the first is the default."""
    bench: dict[str, tuple[DecodingOptions, ...]] = field(default_factory=dict)
    """What `disco bench` measures, by engine; empty: only the default decoder of trained models, in the
    reference engine."""
