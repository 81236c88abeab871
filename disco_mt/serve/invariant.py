"""What a sentence becomes does not depend on its batch mates, to the last bit.

In exact arithmetic that holds anyway (docs/architecture.md). In float32 it fails for two reasons, and
both can be taken away. Matrix products of few rows run another kernel, which rounds otherwise: here few rows
become enough. And attention adds up keys in lanes and queries in blocks, so that the width of a padded batch
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
LONG, LONG_ROWS = 1024, 192  # ... and into one that adds up so many numbers: its kernel cuts them otherwise
LANES = 16  # numbers that are added side by side: AVX-512 has 16 float32 in a register, others fewer
SUMMED = 64  # ... and a sum keeps four registers


class BatchInvariant(TorchFunctionMode):
    """While it is on, torch's matrix products, attention and sums do not see the shape of the batch."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        replacement = _REPLACED.get(func, func)
        return replacement(*args, **(kwargs or {}))


def _enough(x: Tensor) -> Tensor:
    """x: (rows, inner) with rows of zeros, if it has too few."""
    rows, inner = x.shape
    wanted = LONG_ROWS if inner >= LONG else ROWS
    return x if rows >= wanted else F.pad(x, (0, 0, 0, wanted - rows))


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    flat = x.reshape(-1, x.shape[-1])
    return F.linear(_enough(flat), weight, bias)[: len(flat)].view(*x.shape[:-1], -1)


def _addmm(bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    return torch.addmm(bias, _enough(x), weight)[: len(x)]


def _matmul(x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
    if x.dim() != 2 or y.dim() != 2:
        return torch.matmul(x, y, out=out)
    found = torch.matmul(_enough(x), y)[: len(x)]
    return found if out is None else out.copy_(found)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    scale: float | None = None,
) -> Tensor:
    """query: (batch, heads, query, size); attn_mask: (batch, 1, query or 1, key), True or 0 = may attend."""
    queries, keys = -query.shape[2] % LANES, -key.shape[2] % LANES
    if attn_mask is None and keys:
        attn_mask = key.new_ones((1, 1, 1, key.shape[2]), dtype=torch.bool)
    if attn_mask is not None:
        hidden = 0.0 if attn_mask.dtype == torch.bool else -torch.inf
        wider = (0, keys, 0, queries if attn_mask.shape[2] > 1 else 0)
        attn_mask = F.pad(attn_mask, wider, value=hidden)
    wide, key, value = (F.pad(x, (0, 0, 0, n)) for x, n in ((query, queries), (key, keys), (value, keys)))
    mixed = F.scaled_dot_product_attention(
        wide, key, value, attn_mask=attn_mask, dropout_p=dropout_p, scale=scale
    )
    return mixed[:, :, : query.shape[2]]


def _sum(x: Tensor, dim: int | tuple[int, ...] | None = None, keepdim: bool = False) -> Tensor:
    """Of rows that are padded with zeros: candidates of several lengths have their scores so."""
    if dim is None:
        return x.sum()
    if dim == x.dim() - 1 and x.is_floating_point():
        x = F.pad(x, (0, -x.shape[-1] % SUMMED))
    return x.sum(dim, keepdim)


_REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {
    F.linear: _linear,
    torch.addmm: _addmm,
    torch.mm: _matmul,
    torch.matmul: _matmul,
    Tensor.__matmul__: _matmul,
    Tensor.matmul: _matmul,
    F.scaled_dot_product_attention: _attention,
    Tensor.sum: _sum,
}
