"""The registry of systems; plugins add to it with the functions `register*`."""

from __future__ import annotations

from dataclasses import fields, replace

from torch import Tensor

from disco_mt.core.errors import UserError
from disco_mt.core.plugins import load_plugins
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Hypothesis
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.objective import Learn
from disco_mt.systems import autoregressive, cmlm, disco
from disco_mt.systems.system import Decoder, System

SYSTEMS: dict[str, System] = {
    system.name: system for system in (disco.SYSTEM, cmlm.SYSTEM, autoregressive.SYSTEM)
}


def register(system: System) -> System:
    """Add a system; for plugins, see `disco --plugin`."""
    if SYSTEMS.get(system.name, system) is not system:
        raise UserError(f"there is already a system {system.name!r}; choose another name")
    SYSTEMS[system.name] = system
    return system


def register_objective(kind: str, name: str, objective: Learn) -> None:
    """Add an objective to a system; for plugins."""
    if name in system_for(kind).objectives:
        raise UserError(f"{kind} models already have an objective {name!r}; choose another name")
    system_for(kind).objectives[name] = objective


def register_decoder(kind: str, strategy: str, decoder: Decoder) -> None:
    """Add a decoder to a system; for plugins."""
    if strategy in system_for(kind).decoders:
        raise UserError(f"{kind} models already have a strategy {strategy!r}; choose another name")
    system_for(kind).decoders[strategy] = decoder


def system_for(kind: str) -> System:
    """The system of this name, or an error that lists all."""
    if kind not in SYSTEMS:
        raise UserError(
            f"model.kind must be one of {', '.join(SYSTEMS)}, got {kind!r}; is it a system of a plugin? "
            "Name its file: disco --plugin FILE ..."
        )
    return SYSTEMS[kind]


def check_model(config: ModelConfig) -> System:
    """The system of a config; options of other systems are errors."""
    system = system_for(config.kind)
    defaults = {field.name: field.default for field in fields(ModelConfig)}
    for other in SYSTEMS.values():
        for name in other.model_options:
            if name not in system.model_options and getattr(config, name) != defaults[name]:
                raise UserError(f"model.{name} is for {other.name} models, not {config.kind}")
    return system


def strategy_for(kind: str, wanted: str) -> str:
    """The strategy to use, or an error that lists those of the system."""
    decoders = system_for(kind).decoders
    if not wanted:
        return next(iter(decoders))
    if wanted not in decoders:
        known = any(wanted in system.decoders for system in SYSTEMS.values())
        problem = f"does not fit a model of kind {kind}" if known else "is not known"
        hint = "; orders joined with + are now effort high" if "+" in wanted else ""
        raise UserError(f"strategy {wanted!r} {problem}; for {kind} there are: {', '.join(decoders)}{hint}")
    return wanted


def decoder_for(kind: str, strategy: str, effort: str = "") -> Decoder:
    """The decoder of a strategy (empty: the default), or an error if it does not have the effort."""
    name = strategy_for(kind, strategy)
    decoder = system_for(kind).decoders[name]
    if effort and effort not in decoder.efforts:
        raise UserError(
            f"strategy {name!r} of a model of kind {kind} has no effort {effort!r}; it has: "
            f"{', '.join(decoder.efforts)}"
        )
    return decoder


def decode(
    model: TranslationModel,
    source: Tensor,
    options: DecodingOptions = DecodingOptions(),  # noqa: B008
    request: DecodeRequest = DecodeRequest(),  # noqa: B008
) -> list[Hypothesis[int]]:
    """Decode a batch with the plain algorithm of a strategy. source: (batch, src) with EOS."""
    kind = model.config.kind
    decoder = decoder_for(kind, options.strategy, options.effort)
    if request.pins is not None:
        check_pinnable(kind, options.strategy)
    named = replace(options, strategy=strategy_for(kind, options.strategy))
    return decoder.run(model, source, named, request)


def check_pinnable(kind: str, strategy: str) -> None:
    """Raise an error if the decoder does not support pins."""
    if not decoder_for(kind, strategy).pins:
        able = [
            f"{name} of {system.name} models"
            for system in SYSTEMS.values()
            for name, decoder in system.decoders.items()
            if decoder.pins
        ]
        raise UserError(
            f"words cannot be pinned with strategy {strategy_for(kind, strategy)!r} of a model of kind "
            f"{kind}; pins work with {', '.join(able)}"
        )


load_plugins()
