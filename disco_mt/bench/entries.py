"""What is compared: an entry is a model, the engine that runs it, its precision, and how it decodes.

Which entries a model has, its system says (`System.bench`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodingOptions
from disco_mt.engine.select import PRECISIONS
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.systems import SYSTEMS, decoder_for, strategy_for, system_for

Size = Literal["base", "desk"]
BASELINE = "autoregressive"  # the system that all others are compared with
_SHORTLIST = ("ctranslate2", "incremental")  # the engines that can use one


@dataclass(frozen=True)
class Weights:
    """A model: a directory that was trained, or random numbers of the sizes of `config`."""

    name: str  # AT 6-6, DisCo 12-1; with the directory's name, if it has one
    config: ModelConfig
    path: str = ""  # of a trained model; empty: random
    exported: str = ""  # the same weights in CTranslate2's format


@dataclass(frozen=True)
class Entry:
    """One row of every table."""

    weights: Weights
    engine: str
    precision: str
    options: DecodingOptions
    shortlist: str = ""  # file of a vocabulary shortlist

    @property
    def kind(self) -> str:
        return self.weights.config.kind

    @property
    def decoding(self) -> str:
        options = self.options
        decoder = decoder_for(self.kind, options.strategy)
        values = {"beam": f"{options.beam}", "length_beam": f"K={options.length_beam}"}
        if decoder.order is None:  # in Algorithm 1 T is only a limit
            values["iterations"] = f"T={options.iterations}"
        shown = [values[name] for name in decoder.options if name in values]
        return " ".join([options.strategy, *shown, *(["shortlist"] if self.shortlist else [])])

    @property
    def label(self) -> str:
        return f"{self.weights.name} {self.decoding}, {self.precision}, {self.engine}"


def shape(config: ModelConfig) -> str:
    """Encoder and decoder layers: 6-6, 12-1."""
    return f"{config.encoder.layers}-{config.decoder.layers}"


def model_name(config: ModelConfig) -> str:
    return f"{system_for(config.kind).label} {shape(config)}"


def sized(size: Size, kind: str, layers: tuple[int, int] | None = None) -> ModelConfig:
    """The paper's base model, or one that a desk trains: 3+3 layers, 128 wide, vocabulary 8,000."""
    if size == "base":
        config = ModelConfig(kind=kind)
    else:
        stack = Stack(3, 4, 512)
        config = ModelConfig(kind, 128, stack, stack, source_vocabulary=8000, target_vocabulary=8000)
    if layers is None:
        return config
    encoder, decoder = layers
    return replace(
        config,
        encoder=replace(config.encoder, layers=encoder),
        decoder=replace(config.decoder, layers=decoder),
    )


def baseline_first() -> list[str]:
    return sorted(SYSTEMS, key=lambda name: name != BASELINE)


def random_entries(size: Size) -> list[Entry]:
    """All systems that say what is timed, at one size; at base size also with a deep encoder and a shallow
    decoder (Kasai et al. 2021).
    """
    shapes = (None, (12, 1)) if size == "base" else (None,)
    configs = [
        sized(size, kind, layers) for layers in shapes for kind in baseline_first() if SYSTEMS[kind].bench
    ]
    return [entry for config in configs for entry in entries_of(Weights(model_name(config), config))]


def entries_of(weights: Weights) -> list[Entry]:
    system = system_for(weights.config.kind)
    plain = {"reference": (DecodingOptions(strategy_for(system.name, "")),)}
    return [
        Entry(weights, engine, precision, options)
        for engine, timed in (system.bench or plain).items()
        for precision in PRECISIONS[engine]
        for options in timed
    ]


def with_shortlist(entries: Sequence[Entry], shortlist: str) -> list[Entry]:
    """The entries, and those whose engine can use a shortlist once more, with it."""
    listed: list[Entry] = []
    for entry in entries:
        listed.append(entry)
        if shortlist and entry.engine in _SHORTLIST:
            listed.append(replace(entry, shortlist=shortlist))
    return listed


def choose(entries: Sequence[Entry], only: Sequence[str]) -> list[Entry]:
    """The entries whose label has all words of one of the `only` (none given: all of them)."""
    if not only:
        return list(entries)
    for wanted in only:
        if not any(_matches(entry, wanted) for entry in entries):
            labels = "\n  ".join(entry.label for entry in entries)
            raise UserError(f"--only {wanted!r} fits none of the systems; there are:\n  {labels}")
    return [entry for entry in entries if any(_matches(entry, wanted) for wanted in only)]


def _matches(entry: Entry, wanted: str) -> bool:
    words = entry.label.replace(",", "").lower().split()
    return all(word in words for word in wanted.replace(",", "").lower().split())
