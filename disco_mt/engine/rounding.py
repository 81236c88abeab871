"""How int8 rounds: weights by columns once, activations by rows as they come."""

from __future__ import annotations

from torch import Tensor

LEVELS = 127  # the largest rounded weight
ZERO, ACTIVE_ZERO = 128, 32  # the 8-bit numbers that stand for 0: everywhere, and after an activation
GELU_LEAST = 0.17  # no activation is below -0.17


def rounded_columns(matrix: Tensor, levels: int = LEVELS) -> tuple[Tensor, Tensor]:
    """Whole numbers up to `levels`, still as floats, and the scale of each column. matrix: (in, out)."""
    weight = matrix.detach().float().cpu()
    scales = weight.abs().amax(dim=0).clamp(min=1e-30) / levels
    return (weight / scales).round().clamp(-levels, levels), scales
