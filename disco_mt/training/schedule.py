"""The learning rate: linear warm-up, then the inverse square root (Vaswani et al. 2017).

Beyond the paper the last updates may go down to zero in a straight line: a short run ends well with it, where
the paper's has hundreds of thousands of updates at ever smaller rates.
"""

from __future__ import annotations


def learning_rate(
    step: int, peak: float, warmup_steps: int, max_steps: int = 0, cooldown_steps: int = 0
) -> float:
    """The rate of update `step` (the first is 1); `peak` is reached at step `warmup_steps`.

    cooldown_steps: of `max_steps` the last so many, over which the rate falls to (nearly) zero.
    """
    rate = peak * (step / warmup_steps if step <= warmup_steps else (warmup_steps / step) ** 0.5)
    left = max_steps - step + 1
    return rate * min(1.0, left / cooldown_steps) if cooldown_steps else rate
