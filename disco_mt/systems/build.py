"""A model from its config: the one place that knows all kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from disco_mt.core.counter_rng import mix
from disco_mt.core.errors import UserError
from disco_mt.nn.base import TranslationModel, initialise
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.layers import Positions
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.cmlm.model import CMLM
from disco_mt.systems.disco.model import DisCo


def build_model(config: ModelConfig, seed: int = 1) -> TranslationModel:
    """A freshly initialised model; the same seed gives the same weights."""
    model = empty_model(config)
    initialise(model, torch.Generator().manual_seed(mix(seed)))
    return model


def empty_model(config: ModelConfig) -> TranslationModel:
    """A model whose weights have no values yet: a file or `initialise` gives them. Fixed tables are there."""
    if config.length.prior and not config.length.fitted:
        raise UserError(
            "model.length.prior needs its numbers: model.length.slope, offset, spread and spread_slope; "
            "disco train and disco start fit them to the data"
        )
    with _Uninitialised():
        model = _build(config)
    for module in model.modules():
        if isinstance(module, Positions):
            module.fill()
    return model


class _Uninitialised(TorchFunctionMode):
    """Skips torch's own initialisation: time for nothing. (On the meta device, too, nothing is drawn, but
    there torch loads its compiler, which takes a second.)
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init":
            return given["tensor"] if "tensor" in given else args[0]
        return func(*args, **given)


def _build(config: ModelConfig) -> TranslationModel:
    match config.kind:
        case "disco":
            return DisCo(config)
        case "cmlm":
            return CMLM(config)
        case "autoregressive":
            return Autoregressive(config)
