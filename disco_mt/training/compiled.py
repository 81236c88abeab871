"""torch.compile for the layers of a model: the same weights and names, fewer passes over memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch

from disco_mt.core.errors import UserError
from disco_mt.nn.base import TranslationModel

BACKEND: str | Callable[..., Any] = "inductor"  # torch's own


def compile_layers(model: TranslationModel, device: str) -> None:
    """Compile each layer in place, for batches of any shape. The first update then takes a minute."""
    _check_tools(torch.device(device).type)
    for layer in (*model.encoder.layers, *model.layers):
        layer.compile(dynamic=True, backend=BACKEND)


def _check_tools(kind: str) -> None:
    """torch writes C++ for CPUs and Triton for GPUs; what turns it into machine code is not part of torch."""
    compiler = os.environ.get("CXX", "g++")
    if kind == "cpu" and shutil.which(compiler) is None:
        raise UserError(
            f"training.compile needs a C++ compiler on a CPU, and there is no {compiler} (environment "
            "variable CXX); install one, or leave training.compile out"
        )
    if kind == "cuda" and find_spec("triton") is None:
        raise UserError("training.compile needs triton on a GPU: pip install triton, or leave it out")
