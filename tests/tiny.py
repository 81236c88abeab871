"""Small models that many tests share. Everything here is random weights: what is proved must hold for any."""

from __future__ import annotations

import torch

from disco_mt.models.base import TranslationModel
from disco_mt.models.config import ModelConfig, Stack
from disco_mt.special import EOS, NUM_SPECIAL, PAD

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
