"""Dropout with faster random numbers on CPUs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """Dropout; on a CPU nn.Dropout takes four times as long.

    Each entry uses sixteen random bits, so p is rounded to a multiple of 2^-16; scaling with the rounded p
    keeps the expectation exact.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p if round(p * 65536) else 0.0

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        return x * self._factors(x.shape, x.dtype)

    def add(self, x: Tensor, out: Tensor) -> Tensor:
        """x + dropout(out), in one pass over memory."""
        if not self.training or self.p == 0 or x.device.type != "cpu":
            dropped: Tensor = self(out)
            return x + dropped
        summed: Tensor = _AddProduct.apply(x, out, self._factors(out.shape, x.dtype))  # type: ignore[no-untyped-call]
        return summed

    def extra_repr(self) -> str:
        return f"p={self.p}"

    def _factors(self, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        """0 with probability p, else 1 / (1 - p), from the default generator."""
        size, dropped = shape.numel(), round(self.p * 65536)
        lowest = torch.iinfo(torch.int64).min
        bits = torch.empty((size + 3) // 4, dtype=torch.int64).random_(lowest, None)  # four draws per integer
        below = dropped - 32769  # the greatest 16-bit number that means 0
        kept = bits.view(torch.int16)[:size].clamp_(below, below + 1).sub_(below)  # 0 or 1
        return kept.to(dtype).mul_(65536 / (65536 - dropped)).view(shape)


class _AddProduct(torch.autograd.Function):
    """x + out * factors. The backward pass of torch.addcmul would multiply twice."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, out: Tensor, factors: Tensor) -> Tensor:
        ctx.save_for_backward(factors)
        return torch.addcmul(x, out, factors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        (factors,) = ctx.saved_tensors
        return grad, grad * factors, None
