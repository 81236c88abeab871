"""int8 quantization: weights once, by columns; activations by rows, as they come."""

from __future__ import annotations

from torch import Tensor

MAX_WEIGHT = 127  # the largest quantized weight
ZERO = 128  # the 8-bit integer that stands for 0
ACTIVATION_ZERO = 32  # the same for outputs of the activation function, which are mostly positive
GELU_MINIMUM = 0.17
ACTIVATION_MINIMUM = {"gelu": GELU_MINIMUM, "relu": GELU_MINIMUM, "silu": 0.2785}
"""No output of an activation function is below minus this."""


def quantize_columns(matrix: Tensor, max_weight: int = MAX_WEIGHT) -> tuple[Tensor, Tensor]:
    """Whole numbers up to `max_weight`, still as floats, and the scale of each column. matrix: (in, out)."""
    weight = matrix.detach().float().cpu()
    scales = weight.abs().amax(dim=0).clamp(min=1e-30) / max_weight
    return (weight / scales).round().clamp(-max_weight, max_weight), scales
