"""The learning rate: linear warm-up, then the inverse square root (Vaswani et al. 2017).

Beyond the paper the last updates may go down to zero in a straight line: a short run ends well with it, where
the paper's has hundreds of thousands of updates at ever smaller rates.
"""

from __future__ import annotations

from disco_mt.training.options import TrainingOptions


def learning_rate(step: int, options: TrainingOptions) -> float:
    """The rate of update `step` (the first is 1)."""
    peak, warmup = options.learning_rate, options.warmup_steps
    rate = peak * (step / warmup if step <= warmup else (warmup / step) ** 0.5)
    left = options.max_steps - step + 1
    return rate * min(1.0, left / options.cooldown_steps) if options.cooldown_steps else rate
