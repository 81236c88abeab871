"""Small models that many tests share. Everything here is random weights: what is proved must hold for any."""

from __future__ import annotations

import random

import torch

from disco_mt.core.special_tokens import EOS, NUM_SPECIAL, PAD
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import Length, ModelConfig, Stack

VOCABULARY = 40


def tiny_config(**changes: object) -> ModelConfig:
    """2+2 layers, 16 wide."""
    sizes: dict[str, object] = {
        "width": 16,
        "encoder": Stack(2, 2, 32),
        "decoder": Stack(2, 2, 32),
        "dropout": 0.0,
        "max_source": 32,
        "max_target": 32,
        "length_classes": 24,
        "source_vocabulary": VOCABULARY,
        "target_vocabulary": VOCABULARY,
    }
    return ModelConfig(**(sizes | changes))  # type: ignore[arg-type]


PRIOR = Length("slot", True, slope=0.9, offset=0.6, spread=0.8, spread_slope=0.1)
POOLED = Length("pooled", True, slope=1.1, offset=-0.3, spread=1.5, spread_slope=0.05)


MARIAN: dict[str, object] = {
    "norm_epsilon": 1e-5,
    "activation": "silu",
    "positions": "marian",
    "scale_embeddings": True,
    "output_bias": True,
    "start_token": True,
    "query_word": True,
    "length": POOLED,
}
"""All options of a DisCo that was converted from one of Marian's models."""


def random_options(draw: random.Random, kind: str = "disco") -> dict[str, object]:
    """Any of the options that a kind of model has."""
    options: dict[str, object] = {
        "norm": draw.choice(("pre", "post")),
        "norm_epsilon": draw.choice((1e-12, 1e-5)),
        "activation": draw.choice(("gelu", "relu", "silu")),
        "tying": draw.choice(("all", "decoder", "none")),
        "positions": draw.choice(("learned", "sinusoidal", "marian")),
        "scale_embeddings": draw.random() < 0.5,
        "output_bias": draw.random() < 0.5,
    }
    if kind == "disco":
        options["start_token"] = draw.random() < 0.5
        options["query_word"] = draw.random() < 0.5
    if kind != "autoregressive":
        options["length"] = draw.choice((Length(), PRIOR, POOLED))
    return options


def lively(model: TranslationModel, seed: int = 0, scale: float = 0.4) -> TranslationModel:
    """Weights large enough that a model's predictions hang on its inputs, in float64."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "norm" not in name:
            parameter.data.normal_(std=scale, generator=generator)
    return model.double().eval()


def random_sources(lengths: list[int], seed: int = 0) -> list[list[int]]:
    """Random sentences of so many words, without EOS."""
    generator = torch.Generator().manual_seed(seed)
    draw = torch.randint(NUM_SPECIAL, VOCABULARY, (sum(lengths),), generator=generator).tolist()
    return [[draw.pop() for _ in range(length)] for length in lengths]


def padded(sentences: list[list[int]], extra: int = 0) -> torch.Tensor:
    """Sentences with EOS as one tensor, with `extra` columns of padding."""
    width = max(map(len, sentences)) + 1 + extra
    return torch.tensor([[*ids, EOS, *[PAD] * (width - len(ids) - 1)] for ids in sentences])
