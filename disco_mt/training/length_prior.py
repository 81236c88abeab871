"""The prior of the length predictor, fitted to the training data: target tokens from source tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from disco_mt.data.dataset import Split
from disco_mt.nn.config import Length

_LEAST = 0.5  # tokens: no spread is narrower


def fit_length_prior(length: Length, split: Split) -> Length:
    """A straight line for the expected length, and one for the mean distance from it; EOS counts."""
    source, target = split.source_lengths + 1.0, split.target_lengths + 1.0
    # Long sentences miss by more: dividing by the root of the length weighs all alike.
    slope, offset = _line(source, target, 1 / np.sqrt(source))
    away = np.abs(target - slope * source - offset)
    spread_slope, spread = _line(source, away, 1 / np.sqrt(source))
    if spread_slope < 0:
        spread_slope, spread = 0.0, float(away.mean())
    spread = max(_LEAST - spread_slope * float(source.min()), spread)
    return replace(
        length,
        slope=round(slope, 4),
        offset=round(offset, 4),
        spread=round(max(0.0, spread), 4),
        spread_slope=round(spread_slope, 4),
    )


def _line(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Slope and offset of the weighted least-squares line; of one length alone, a flat one."""
    if x.min() == x.max():
        return 0.0, float(y.mean())
    slope, offset = np.polyfit(x, y, 1, w=weight)
    return float(slope), float(offset)
