"""The compiled kernels (kernels.c): are they here, and what do they take?

Installing the package compiles them where there is a C compiler. They need a processor with AMX, Intel's
matrix units; elsewhere ONNX Runtime computes in int8.
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
from disco_mt.engine.quantization import ZERO, rounded_columns

_FORMAT = 1  # of what the kernels take; kernels.c has the same
_PANEL, _INNER = 32, 64  # columns and rows of a matrix that the kernels take at a time
LANES = 16  # numbers that they take at a time
_TRY = "from disco_mt.engine.native import try_kernels; try_kernels()"


class CMatrix(Structure):
    """A rounded matrix."""

    _fields_ = (
        *((name, c_void_p) for name in ("panels", "zeros", "scales", "bias")),
        *((name, c_int64) for name in ("inner", "out")),
    )


class CNorm(Structure):
    """LayerNorm's gain and shift."""

    _fields_ = (("gain", c_void_p), ("shift", c_void_p))


class CAttention(Structure):
    """An attention block."""

    _fields_ = (("query", CMatrix), ("out", CMatrix), ("norm", CNorm))


class CFeedForward(Structure):
    """A feed-forward block."""

    _fields_ = (("up", CMatrix), ("down", CMatrix), ("norm", CNorm))


class CSeen(Structure):
    """Keys and values that rows see."""

    _fields_ = (
        *(("keys", c_void_p), ("values", c_void_p), ("group_stride", c_int64), ("length", c_int64)),
        *(("visible", c_void_p), ("visible_by_row", c_int64), ("groups", c_void_p)),
    )


class CShape(Structure):
    """What is the same in all layers."""

    _fields_ = (
        *((name, c_int64) for name in ("width", "heads", "hidden", "pre", "activation")),
        *((name, c_float) for name in ("eps", "active_least")),
        *((name, c_int64) for name in ("zero", "active_zero")),
    )


class Rounded(NamedTuple):
    """A matrix as the kernels take it, and the tensors that its pointers are into."""

    c: CMatrix
    tensors: tuple[Tensor, ...]


def rounded(linear: Linear, zero: int) -> Rounded:
    """x @ weight + bias with 8-bit weights, a scale a column. zero: what stands for 0 in rounded rows."""
    (inner, out), (whole, scales) = linear.weight.shape, rounded_columns(linear.weight)
    height, width = up_to(inner, _INNER), up_to(out, _PANEL)
    whole = F.pad(whole, (0, width - out, 0, height - inner))
    tiles = whole.view(height // _INNER, _INNER // 4, 4, width // LANES, LANES)
    panels = tiles.permute(3, 0, 1, 4, 2).to(torch.int8).contiguous()  # columns of tiles, top down
    scales, bias = (F.pad(each, (0, width - out)) for each in (scales, linear.bias.detach().float()))
    tensors = panels, (zero * whole.sum(dim=0)).to(torch.int32), scales, bias
    return Rounded(CMatrix(*(tensor.data_ptr() for tensor in tensors), inner, width), tensors)


def up_to(number: int, step: int) -> int:
    """The next multiple of a step."""
    return -(-number // step) * step


@functools.cache
def kernels() -> Any | None:
    """The functions of kernels.c; None where there are none, or where they do not run."""
    library = _library()
    if library is None or not has_amx_int8():
        return None
    compiled = Path(library._name).stat()
    if not remembered(f"kernels {compiled.st_size} {compiled.st_mtime_ns}", _run_here):
        return None
    return library if library.disco_amx_allowed() else None


@functools.cache
def _library() -> Any | None:
    """What installing the package compiled, unless it was another version of it."""
    files = (Path(__file__).with_name(f"_kernels{suffix}") for suffix in EXTENSION_SUFFIXES)
    found = next((file for file in files if file.exists()), None)
    try:
        library = None if found is None else ctypes.CDLL(str(found))
    except OSError:
        return None
    return library if library is not None and library.disco_format() == _FORMAT else None


def _run_here() -> bool:
    """Some machines report AMX and end processes that use it: a child process tries."""
    done = subprocess.run([sys.executable, "-c", _TRY], capture_output=True, check=False)
    return done.returncode == 0


def try_kernels() -> None:
    """One product; it must be right."""
    library = _library()
    if library is None or not library.disco_amx_allowed():
        raise SystemExit(1)
    x, weight = torch.eye(40, 100), torch.arange(6400.0).view(100, 64) % 127 - 63
    found, shape = torch.empty(40, 64), CShape(width=100, zero=ZERO)
    matrix = rounded(Linear(weight, torch.zeros(64)), ZERO)
    sizes = c_int64(40), byref(matrix.c), pointer(found), None, None, c_int64(64)
    library.disco_product(byref(shape), pointer(x), *sizes)
    raise SystemExit(not torch.allclose(found, weight[:40], atol=0.5))


def pointer(tensor: Tensor) -> c_void_p:
    """Its first number. Who has the pointer must keep the tensor, too."""
    assert tensor.is_contiguous()
    return c_void_p(tensor.data_ptr())
