"""Fixtures that many tests share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from disco_mt.nn.base import TranslationModel
from disco_mt.systems.build import build_model
from tiny import lively, tiny_config

torch.set_num_threads(1)  # tests run side by side


@pytest.fixture
def make_model() -> Callable[..., TranslationModel]:
    """A lively float64 model: make_model(seed=3, kind="cmlm")."""

    def make(seed: int = 0, scale: float = 0.4, **changes: object) -> TranslationModel:
        return lively(build_model(tiny_config(**changes), seed), seed, scale)

    return make
