"""What a sentence becomes does not depend on its batch mates, to the last bit.

In exact arithmetic that holds anyway (docs/architecture.md). In float32 it fails for two reasons, and
both can be taken away. Matrix products of few rows run another kernel, which rounds otherwise: here few rows
become `ROWS`. And attention adds up keys in lanes and queries in blocks, so that the width of a padded batch
changes the order of additions: here widths are a multiple of `LANES`. What is added is cut off again.

This relies on how today's CPU kernels add; tests compare whole translations, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

ROWS = 16  # fewest rows that go into a matrix product
LANES = 16  # numbers that are added side by side: AVX-512 has 16 float32 in a register, others fewer


class BatchInvariant(TorchFunctionMode):
    """While it is on, torch's matrix products, attention and sums do not see the shape of the batch."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        replacement = _REPLACED.get(func)
        return func(*args, **kwargs) if replacement is None else replacement(*args, **kwargs)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rows = x.numel() // x.shape[-1]
    if rows >= ROWS or not rows:
        return F.linear(x, weight, bias)
    flat = F.pad(x.reshape(rows, -1), (0, 0, 0, ROWS - rows))
    return F.linear(flat, weight, bias)[:rows].view(*x.shape[:-1], -1)


def _matmul(x: Tensor, y: Tensor) -> Tensor:
    rows = len(x)
    if x.dim() != 2 or y.dim() != 2 or rows >= ROWS or not rows:
        return torch.matmul(x, y)
    return torch.matmul(F.pad(x, (0, 0, 0, ROWS - rows)), y)[:rows]


def _attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0
) -> Tensor:
    """query: (batch, heads, query, size); attn_mask: (batch, 1, query or 1, key), True = may attend."""
    queries, keys = -query.shape[2] % LANES, -key.shape[2] % LANES
    if attn_mask is None and keys:
        attn_mask = key.new_ones((1, 1, 1, key.shape[2]), dtype=torch.bool)
    if attn_mask is not None:
        attn_mask = F.pad(attn_mask, (0, keys, 0, queries if attn_mask.shape[2] > 1 else 0))
    wide, key, value = (F.pad(x, (0, 0, 0, n)) for x, n in ((query, queries), (key, keys), (value, keys)))
    mixed = F.scaled_dot_product_attention(wide, key, value, attn_mask=attn_mask, dropout_p=dropout_p)
    return mixed[:, :, : query.shape[2]]


_REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {
    F.linear: _linear,
    torch.matmul: _matmul,
    Tensor.__matmul__: _matmul,
    Tensor.matmul: _matmul,
    F.scaled_dot_product_attention: _attention,
}
