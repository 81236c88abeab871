"""Arithmetic in which a sentence's translation does not depend on its batch mates, to the last bit.

In exact arithmetic that holds anyway (docs/architecture.md). In float32, torch's CPU kernels break it in two
ways. Matrix products of few rows use another kernel, which rounds differently: here few rows are padded to
enough. And attention sums over keys in lanes and over queries in blocks, so that the width of a padded batch
changes the order of additions: here widths are padded to a multiple of `LANES`. The padding is cut off again.

This relies on how today's CPU kernels add; tests compare whole translations, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

ROWS = 16  # fewest rows of a matrix product
INNER = 512  # longest sum of one product: beyond, the kernel splits it in a way that depends on the rows
LANES = 16  # numbers that are added side by side: AVX-512 has 16 float32 in a register, others fewer
SUMMED = 64  # ... and a sum keeps four registers


class BatchInvariant(TorchFunctionMode):
    """While it is entered, this thread's matrix products, attention and sums do not depend on the batch.

    The same object may be entered again and again. Calls from other threads are not affected.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return _PADDED.get(func, func)(*args, **(kwargs or {}))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear."""
    return _product(x.reshape(-1, x.shape[-1]), weight.T, bias).view(*x.shape[:-1], -1)


def addmm(bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """torch.addmm."""
    return _product(x, weight, bias)


def matmul(x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
    """torch.matmul and torch.mm."""
    if x.dim() > 2 and y.dim() == 2 and out is None:  # sentences of some rows each: all rows are one matrix
        return _product(x.reshape(-1, x.shape[-1]), y).view(*x.shape[:-1], -1)
    if x.dim() != 2 or y.dim() != 2:
        return torch.matmul(x, y, out=out)
    product = _product(x, y)
    return product if out is None else out.copy_(product)


def _product(x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
    """x: (rows, inner), y: (inner, columns). Few rows are padded, long sums are split."""
    rows, inner = x.shape
    if rows < ROWS:
        x = F.pad(x, (0, 0, 0, ROWS - rows))
    first, weight = x[:, :INNER], y[:INNER]
    product = torch.mm(first, weight) if bias is None else torch.addmm(bias, first, weight)
    for start in range(INNER, inner, INNER):
        product.addmm_(x[:, start : start + INNER], y[start : start + INNER])
    return product[:rows]


def attention(
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
        attn_mask = F.pad(attn_mask, wider, value=hidden) if any(wider) else attn_mask
    wide, key, value = (_longer(x, n) for x, n in ((query, queries), (key, keys), (value, keys)))
    mixed = F.scaled_dot_product_attention(
        wide, key, value, attn_mask=attn_mask, dropout_p=dropout_p, scale=scale
    )
    return mixed[:, :, : query.shape[2]]


def _longer(x: Tensor, more: int) -> Tensor:
    """x: (batch, heads, length, size)."""
    return F.pad(x, (0, 0, 0, more)) if more else x


def total(x: Tensor, dim: int | tuple[int, ...] | None = None, keepdim: bool = False) -> Tensor:
    """Tensor.sum of rows that are padded with zeros, such as the scores of candidates of several lengths."""
    if dim is None:
        return x.sum()
    if dim == x.dim() - 1 and x.is_floating_point() and (more := -x.shape[-1] % SUMMED):
        x = F.pad(x, (0, more))
    return x.sum(dim, keepdim)


_PADDED: dict[Callable[..., Any], Callable[..., Any]] = {
    F.linear: linear,
    F.scaled_dot_product_attention: attention,
    torch.addmm: addmm,
    torch.mm: matmul,
    torch.matmul: matmul,
    Tensor.matmul: matmul,
    Tensor.__matmul__: matmul,
    Tensor.sum: total,
}
