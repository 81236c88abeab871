"""Build or load a model of any system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from disco_mt.core.counter_rng import mix
from disco_mt.core.errors import UserError
from disco_mt.decoding.reranking import Reranker, check_same_vocabulary
from disco_mt.nn.base import ParallelModel, TranslationModel, initialise
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.directory import CONFIG, FROZEN, WEIGHTS, Directory, load_tensors, read_config, read_tensors
from disco_mt.nn.find import find_model
from disco_mt.nn.layers import Positions
from disco_mt.systems import SYSTEMS, check_model, system_for


def build_model(config: ModelConfig, seed: int = 1) -> TranslationModel:
    """A freshly initialised model; the same seed gives the same weights."""
    model = empty_model(config)
    initialise(model, torch.Generator().manual_seed(mix(seed)))
    return model


def empty_model(config: ModelConfig) -> TranslationModel:
    """A model with uninitialised weights, but with its fixed tables."""
    if config.length.prior and not config.length.fitted:
        raise UserError(
            "model.length.prior needs its numbers: model.length.slope, offset, spread and spread_slope; "
            "disco train and disco start fit them to the data"
        )
    with _Uninitialised():
        model = check_model(config).build(config)
    for module in model.modules():
        if isinstance(module, Positions):
            module.fill()
    return model


class _Uninitialised(TorchFunctionMode):
    """Skips torch's own initialisation, which would be overwritten. (The meta device would skip it as well,
    but it makes torch load its compiler, which takes a second.)
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)


def load_weights(directory: Directory) -> TranslationModel:
    """The model of a directory: on the CPU, in float32 and in evaluation mode."""
    try:
        check_model(directory.model)
    except UserError as error:
        raise UserError(f"{directory.path / CONFIG}: {error}") from None
    names = (WEIGHTS, FROZEN) if directory.frozen else (WEIGHTS,)
    tensors = {name: tensor for file in names for name, tensor in read_tensors(directory.path / file).items()}
    model = empty_model(directory.model)
    load_tensors(model, tensors, directory.path / WEIGHTS)
    model.freeze(directory.frozen)
    return model.eval()


def reranker_of(model: TranslationModel) -> Reranker | None:
    """A model as its own reranker, if its system can score targets."""
    score = system_for(model.config.kind).score
    return None if score is None else Reranker(model, score)


def load_reranker(directory: Directory, model: TranslationModel, name: str) -> Reranker | None:
    """The reranker: the model itself ("self"), another model of the same vocabulary, or None ("none").

    directory, model: the model that decodes.
    """
    if name == "none":
        return None
    if not isinstance(model, ParallelModel):
        raise UserError(f"a model of kind {model.config.kind} has no length candidates to rerank")
    other: TranslationModel = model
    if name != "self":
        chosen = read_config(find_model(name))
        check_same_vocabulary(directory.text, chosen.text)
        other = load_weights(chosen).to(next(model.parameters()).device)
    reranker = reranker_of(other)
    if reranker is None:
        able = ", ".join(system.name for system in SYSTEMS.values() if system.score is not None)
        raise UserError(f"a model of kind {other.config.kind} cannot rerank; use one of: {able}")
    return reranker
