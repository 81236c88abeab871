"""A model from its config: the one place that knows all kinds."""

from __future__ import annotations

import torch

from disco_mt.keyed import mix
from disco_mt.models.autoregressive import Autoregressive
from disco_mt.models.base import TranslationModel, initialise
from disco_mt.models.cmlm import CMLM
from disco_mt.models.config import ModelConfig
from disco_mt.models.disco import DisCo


def build_model(config: ModelConfig, seed: int = 1) -> TranslationModel:
    """A freshly initialised model; the same seed gives the same weights."""
    with torch.device("meta"):
        model = _build(config)
    model = model.to_empty(device="cpu")
    initialise(model, torch.Generator().manual_seed(mix(seed)))
    return model


def _build(config: ModelConfig) -> TranslationModel:
    match config.kind:
        case "disco":
            return DisCo(config)
        case "cmlm":
            return CMLM(config)
        case "autoregressive":
            return Autoregressive(config)
