"""The learning rate: linear warm-up, then the inverse square root (Vaswani et al. 2017)."""

from __future__ import annotations


def learning_rate(step: int, peak: float, warmup_steps: int) -> float:
    """The rate of update `step` (the first is 1); `peak` is reached at step `warmup_steps`."""
    if step <= warmup_steps:
        return peak * step / warmup_steps
    return peak * float((warmup_steps / step) ** 0.5)
