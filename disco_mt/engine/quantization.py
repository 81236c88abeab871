"""How int8 rounds: weights by columns once, activations by rows as they come."""

from __future__ import annotations

from torch import Tensor

LEVELS = 127  # the largest rounded weight
ZERO, ACTIVE_ZERO = 128, 32  # the 8-bit numbers that stand for 0: everywhere, and after an activation
GELU_LEAST = 0.17
ACTIVE_LEAST = {"gelu": GELU_LEAST, "relu": GELU_LEAST, "silu": 0.2785}
"""No value of an activation is below minus this."""


def rounded_columns(matrix: Tensor, levels: int = LEVELS) -> tuple[Tensor, Tensor]:
    """Whole numbers up to `levels`, still as floats, and the scale of each column. matrix: (in, out)."""
    weight = matrix.detach().float().cpu()
    scales = weight.abs().amax(dim=0).clamp(min=1e-30) / levels
    return (weight / scales).round().clamp(-levels, levels), scales
