"""The compiled kernels (kernels.c): whether they run on this machine, and the structures they take.

Installing the package compiles them where there is a C compiler. They need a processor with AMX, Intel's
matrix units; elsewhere int8 is computed by ONNX Runtime.
"""

from __future__ import annotations

import ctypes
import functools
import subprocess
import sys
from ctypes import Structure, byref, c_float, c_int64, c_void_p
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from disco_mt.core.machine import has_amx_int8, remembered
from disco_mt.engine.packed import Linear
from disco_mt.engine.quantization import ZERO, quantize_columns

_FORMAT = 1  # version of the structures below; kernels.c has the same
_PANEL = 32  # matrix columns that the kernels process at a time
_INNER = 64  # matrix rows that they process at a time
LANES = 16  # numbers that they process at a time
_TRY = "from disco_mt.engine.native import try_kernels; try_kernels()"


class CMatrix(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("panels", "zeros", "scales", "bias")),
        *((name, c_int64) for name in ("inner", "out")),
    )


class CNorm(Structure):
    _fields_ = (("gain", c_void_p), ("shift", c_void_p))


class CAttention(Structure):
    _fields_ = (("query", CMatrix), ("out", CMatrix), ("norm", CNorm))


class CFeedForward(Structure):
    _fields_ = (("up", CMatrix), ("down", CMatrix), ("norm", CNorm))


class CSeen(Structure):
    """The keys and values that rows see."""

    _fields_ = (
        ("keys", c_void_p),
        ("values", c_void_p),
        ("group_stride", c_int64),
        ("length", c_int64),
        ("visible", c_void_p),
        ("visible_by_row", c_int64),
        ("groups", c_void_p),
    )


class CShape(Structure):
    """Sizes and constants, the same in all layers of a stack."""

    _fields_ = (
        *((name, c_int64) for name in ("width", "heads", "hidden", "pre", "activation")),
        *((name, c_float) for name in ("eps", "active_least")),
        *((name, c_int64) for name in ("zero", "active_zero")),
    )


class QuantizedMatrix(NamedTuple):
    """A matrix as the kernels take it, and the tensors that its pointers refer to."""

    c: CMatrix
    tensors: tuple[Tensor, ...]


def quantize(linear: Linear, zero: int) -> QuantizedMatrix:
    """x @ weight + bias with 8-bit weights, one scale per column. zero: stands for 0 in quantized rows."""
    inner, out = linear.weight.shape
    height = round_up(inner, _INNER)
    width = round_up(out, _PANEL)
    weights, scales = quantize_columns(linear.weight)
    weights = F.pad(weights, (0, width - out, 0, height - inner))
    tiles = weights.view(height // _INNER, _INNER // 4, 4, width // LANES, LANES)
    panels = tiles.permute(3, 0, 1, 4, 2).to(torch.int8).contiguous()  # columns of tiles, top down
    zeros = (zero * weights.sum(dim=0)).to(torch.int32)
    bias = linear.bias.detach().float()
    tensors = panels, zeros, F.pad(scales, (0, width - out)), F.pad(bias, (0, width - out))
    return QuantizedMatrix(CMatrix(*(tensor.data_ptr() for tensor in tensors), inner, width), tensors)


def round_up(number: int, step: int) -> int:
    """The next multiple of `step`."""
    return -(-number // step) * step


@functools.cache
def kernels() -> Any | None:
    """The functions of kernels.c; None where they were not compiled or do not run."""
    library = _library()
    if library is None or not has_amx_int8():
        return None
    compiled = Path(library._name).stat()
    if not remembered(f"kernels {compiled.st_size} {compiled.st_mtime_ns}", _run_here):
        return None
    return library if library.disco_amx_allowed() else None


@functools.cache
def _library() -> Any | None:
    """The compiled library, unless an installation of another version has left it."""
    files = (Path(__file__).with_name(f"_kernels{suffix}") for suffix in EXTENSION_SUFFIXES)
    file = next((file for file in files if file.exists()), None)
    try:
        library = None if file is None else ctypes.CDLL(str(file))
    except OSError:
        return None
    return library if library is not None and library.disco_format() == _FORMAT else None


def _run_here() -> bool:
    """Some machines report AMX but kill processes that use it, so a child process tries."""
    return subprocess.run([sys.executable, "-c", _TRY], capture_output=True, check=False).returncode == 0


def try_kernels() -> None:
    """Compute one product, and exit with 0 if it is right."""
    library = _library()
    if library is None or not library.disco_amx_allowed():
        raise SystemExit(1)
    x = torch.eye(40, 100)
    weight = torch.arange(6400.0).view(100, 64) % 127 - 63
    product = torch.empty(40, 64)
    shape = CShape(width=100, zero=ZERO)
    matrix = quantize(Linear(weight, torch.zeros(64)), ZERO)
    arguments = c_int64(40), byref(matrix.c), pointer(product), None, None, c_int64(64)
    library.disco_product(byref(shape), pointer(x), *arguments)
    raise SystemExit(not torch.allclose(product, weight[:40], atol=0.5))


def pointer(tensor: Tensor) -> c_void_p:
    """The address of a tensor's data. The caller must keep the tensor alive."""
    assert tensor.is_contiguous()
    return c_void_p(tensor.data_ptr())
