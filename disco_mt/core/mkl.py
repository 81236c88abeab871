"""bfloat16 matrix products by the MKL in torch: factors are rounded to bfloat16, sums stay in float32.

torch's own bfloat16 products (oneDNN) also round the sums, and on some machines they must not use AMX,
Intel's matrix units (machine.py). MKL uses AMX wherever it works. On processors of other vendors MKL does not
use the bfloat16 units, and oneDNN is more than four times as fast: there the sums are rounded.

In the context `Products`, every linear layer multiplies this way, forward and backward. Everything else stays
in float32, which is faster on CPUs than autocast, which rounds everything.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from disco_mt.core.machine import has_fast_mkl

_ROW_MAJOR, _AS_IT_IS, _TRANSPOSED = 101, 111, 112  # names of CBLAS


class Products(TorchFunctionMode):
    """Linear layers of float32 tensors on the CPU multiply in bfloat16."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is F.linear and args[0].dtype == torch.float32:
            return linear(*args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))


def available() -> bool:
    """Does this torch include an MKL with bfloat16 products?"""
    return _gemm() is not None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x weight^T + bias. x: (..., in); weight: (out, in)."""
    out: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return out


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows, matrix = x.reshape(-1, x.shape[-1]).bfloat16(), weight.bfloat16()
        ctx.save_for_backward(rows, matrix)
        out = product(rows, matrix.T, x.new_empty(len(rows), len(matrix)))
        if bias is not None:
            out += bias
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        rows, matrix = ctx.saved_tensors
        flat = grad.reshape(-1, grad.shape[-1])
        low = flat.bfloat16()
        of_x = of_weight = None
        if ctx.needs_input_grad[0]:
            of_x = product(low, matrix, grad.new_empty(rows.shape)).view(*grad.shape[:-1], -1)
        if ctx.needs_input_grad[1]:
            of_weight = product(low.T, rows, grad.new_empty(matrix.shape))
        return of_x, of_weight, flat.sum(dim=0) if ctx.needs_input_grad[2] else None


def product(left: Tensor, right: Tensor, out: Tensor, add: bool = False) -> Tensor:
    """left @ right into `out`, or added to it.

    left, right: bfloat16, each contiguous or the transpose of a contiguous matrix; out: float32, contiguous.
    """
    assert out.is_contiguous()
    assert all(factor.is_contiguous() or factor.T.is_contiguous() for factor in (left, right))
    (rows, inner), columns = left.shape, right.shape[1]
    if not out.numel() or not inner:
        return out if add else out.zero_()
    if not has_fast_mkl():
        return out.add_(torch.mm(left, right)) if add else out.copy_(torch.mm(left, right))
    gemm = _gemm()
    assert gemm is not None
    gemm(
        _ROW_MAJOR,
        *(_TRANSPOSED if _is_transposed(factor) else _AS_IT_IS for factor in (left, right)),
        *(rows, columns, inner, ctypes.c_float(1)),
        *(ctypes.c_void_p(left.data_ptr()), _stride(left)),
        *(ctypes.c_void_p(right.data_ptr()), _stride(right)),
        *(ctypes.c_float(add), ctypes.c_void_p(out.data_ptr()), columns),
    )
    return out


def _is_transposed(matrix: Tensor) -> bool:
    return not matrix.is_contiguous()


def _stride(matrix: Tensor) -> int:
    """From one row to the next, in memory."""
    return matrix.shape[0] if _is_transposed(matrix) else matrix.shape[1]


@functools.cache
def _gemm() -> Callable[..., Any] | None:
    """CBLAS's product of bfloat16 matrices with a float32 result; None in a torch without MKL."""
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    has_mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    if not has_mkl or not library.exists():
        return None
    return getattr(ctypes.CDLL(str(library)), "cblas_gemm_bf16bf16f32", None)
