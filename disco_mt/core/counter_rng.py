"""Random numbers that depend only on a key, never on batch mates, padding or earlier draws.

A counter-based generator (splitmix64) instead of a stateful one: the draw for sentence s at step t is the
same for any batching, any number of processes, and after any restart.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MASK64 = (1 << 64) - 1
_GOLDEN, _M1, _M2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def _signed(number: int) -> int:
    """The same 64 bits as torch's signed int64."""
    number &= _MASK64
    return number - (1 << 64) if number >> 63 else number


def mix(*numbers: int) -> int:
    """One signed 64-bit key from several numbers; order matters."""
    state = 0
    for number in numbers:
        state = (state ^ (number & _MASK64)) + _GOLDEN & _MASK64
        state = (state ^ (state >> 30)) * _M1 & _MASK64
        state = (state ^ (state >> 27)) * _M2 & _MASK64
        state ^= state >> 31
    return _signed(state)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical right shift: torch's own is arithmetic on int64."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix_tensor(x: Tensor) -> Tensor:
    x = x + _signed(_GOLDEN)
    x = (x ^ _shift(x, 30)) * _signed(_M1)
    x = (x ^ _shift(x, 27)) * _signed(_M2)
    return x ^ _shift(x, 31)


def sentence_keys(key: int, sentence: Tensor) -> Tensor:
    """One key per sentence. sentence: (batch,) int64 -> (batch,) int64."""
    return _mix_tensor(sentence ^ key)


def integers(keys: Tensor, size: int) -> Tensor:
    """Non-negative 63-bit integers: entry [b, n] depends on keys[b] and n only.

    keys: (...) int64. Returns (..., size).
    """
    counter = torch.arange(size, device=keys.device)
    return _shift(_mix_tensor(keys[..., None] ^ _mix_tensor(counter)), 1)


def uniform(keys: Tensor, size: int) -> Tensor:
    """Uniform on [0, 1) in float64, keyed like `integers`."""
    return _shift(integers(keys, size), 10).double() * 2.0**-53
