"""What makes training fast: mixed precision, torch.compile, and memory that is kept.

Mixed precision: matrix products are in bfloat16 or float16, the weights themselves in float32. On CPUs
bfloat16 products are MKL's (core/mkl.py). Everywhere else autocast casts at each product and leaves sums,
LayerNorm (nn/layers.py), softmax (inside attention, whose kernels accumulate in float32) and the loss
(nn/cross_entropy.py) in float32. float16 has a narrow range: its losses are scaled up before the backward
pass and the gradients down after it, by a factor that follows what overflows.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch

from disco_mt.core import mkl
from disco_mt.core.errors import UserError
from disco_mt.core.machine import avoid_broken_amx
from disco_mt.nn.base import TranslationModel

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
# Losses are sums over words here, not means: their gradients are larger, and so the first factor smaller
# than torch's 2^16.
_FIRST_SCALE = 2.0**7


@dataclass(frozen=True)
class MixedPrecision:
    """How the products of a training are computed."""

    name: str = "fp32"  # or bf16, fp16
    device: str = "cpu"
    compiled: bool = False  # layers that torch.compile made cannot contain products that torch does not know

    @property
    def by_mkl(self) -> bool:
        """Are products MKL's?"""
        on_cpu = torch.device(self.device).type == "cpu"
        return on_cpu and self.name == "bf16" and not self.compiled and mkl.available()

    def computing(self) -> AbstractContextManager[object]:
        """The context in which losses are computed; with fp32 it changes nothing."""
        if self.by_mkl:
            return mkl.Products()
        kind, half = torch.device(self.device).type, HALF.get(self.name, torch.bfloat16)
        return torch.autocast(kind, half, enabled=self.name in HALF)

    def scaler(self) -> torch.amp.GradScaler:
        """What scales losses and gradients; it does nothing unless the precision is fp16."""
        kind = torch.device(self.device).type
        return torch.amp.GradScaler(kind, init_scale=_FIRST_SCALE, enabled=self.name == "fp16")


def check_precision(precision: str, device: str) -> None:
    """Refuse what a device cannot do, before any work."""
    if precision == "fp32":
        return
    kind = torch.device(device).type
    if kind == "cpu":
        avoid_broken_amx()
    if kind == "cpu" and precision == "fp16" and not torch.ops.mkldnn._is_mkldnn_fp16_supported():
        raise UserError(
            "training.precision fp16 needs --device cuda: torch has no float16 products for this processor "
            "(it lacks AVX512-FP16); use bf16 or fp32"
        )
    if precision == "bf16" and kind == "cuda" and not torch.cuda.is_bf16_supported():
        raise UserError("training.precision bf16 is not supported by this GPU; use fp16 or fp32")


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


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of mallopt's options in malloc.h


def keep_freed_memory() -> None:
    """Set the options of glibc; with another C library nothing happens."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, 1 << 25)  # the most that it accepts
        library.mallopt(_TRIM_THRESHOLD, 1 << 30)
