"""What a sentence becomes does not depend on its batch mates, to the last bit.

In exact arithmetic that holds anyway (docs/architecture.md). In float32 it fails for two reasons, and
both can be taken away. Matrix products of few rows run another kernel, which rounds otherwise: here few rows
become enough. And attention adds up keys in lanes and queries in blocks, so that the width of a padded batch
changes the order of additions: here widths are a multiple of `LANES`. What is added is cut off again.

This relies on how today's CPU kernels add; tests compare whole translations, bit by bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS = 16  # fewest rows that go into a matrix product
LONG, LONG_ROWS = 1024, 192  # ... and into one that adds up so many numbers: its kernel cuts them otherwise
LANES = 16  # numbers that are added side by side: AVX-512 has 16 float32 in a register, others fewer
SUMMED = 64  # ... and a sum keeps four registers

_linear, _addmm, _matmul, _mm = F.linear, torch.addmm, torch.matmul, torch.mm
_attention, _sum = F.scaled_dot_product_attention, Tensor.sum

_lock = threading.Lock()
_users = 0


@contextmanager
def batch_invariant() -> Iterator[None]:
    """While it is on, torch's matrix products, attention and sums do not see the shape of the batch.

    torch's functions are exchanged for all threads, which is harmless: they compute the same, only padded.
    A TorchFunctionMode would be more polite, but it costs 9 % of the time of a translation.
    """
    _use(1)
    try:
        yield
    finally:
        _use(-1)


def _use(change: int) -> None:
    """Exchange the functions for the first user, and put them back after the last."""
    global _users  # torch has one of each function, too
    with _lock:
        before, _users = _users, _users + change
        if bool(before) != bool(_users):
            for owner, name, original, padded in _EXCHANGED:
                setattr(owner, name, padded if _users else original)


def _enough(x: Tensor) -> Tensor:
    """x: (rows, inner) with rows of zeros, if it has too few."""
    rows, inner = x.shape
    wanted = LONG_ROWS if inner >= LONG else ROWS
    return x if rows >= wanted else F.pad(x, (0, 0, 0, wanted - rows))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    flat = x.reshape(-1, x.shape[-1])
    return _linear(_enough(flat), weight, bias)[: len(flat)].view(*x.shape[:-1], -1)


def addmm(bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    return _addmm(bias, _enough(x), weight)[: len(x)]


def matmul(x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
    if x.dim() > 2 and y.dim() == 2 and out is None:  # sentences of some rows each: all rows are one matrix
        return matmul(x.reshape(-1, x.shape[-1]), y).view(*x.shape[:-1], -1)
    if x.dim() != 2 or y.dim() != 2 or (wide := _enough(x)) is x:
        return _matmul(x, y, out=out)
    found = _matmul(wide, y)[: len(x)]
    return found if out is None else out.copy_(found)


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
    mixed = _attention(wide, key, value, attn_mask=attn_mask, dropout_p=dropout_p, scale=scale)
    return mixed[:, :, : query.shape[2]]


def _longer(x: Tensor, more: int) -> Tensor:
    """x: (batch, heads, length, size)."""
    return F.pad(x, (0, 0, 0, more)) if more else x


def total(x: Tensor, dim: int | tuple[int, ...] | None = None, keepdim: bool = False) -> Tensor:
    """Of rows that are padded with zeros: candidates of several lengths have their scores so."""
    if dim is None:
        return _sum(x)
    if dim == x.dim() - 1 and x.is_floating_point() and (more := -x.shape[-1] % SUMMED):
        x = F.pad(x, (0, more))
    return _sum(x, dim, keepdim)


_EXCHANGED: tuple[tuple[Any, str, Callable[..., Any], Callable[..., Any]], ...] = (
    (F, "linear", _linear, linear),
    (F, "scaled_dot_product_attention", _attention, attention),
    (torch, "addmm", _addmm, addmm),
    (torch, "mm", _mm, matmul),
    (torch, "matmul", _matmul, matmul),
    (Tensor, "matmul", Tensor.matmul, matmul),
    (Tensor, "__matmul__", Tensor.__matmul__, matmul),
    (Tensor, "sum", _sum, total),
)
