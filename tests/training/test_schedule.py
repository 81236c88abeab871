"""Warm-up from 0 to the peak, then the inverse square root."""

from __future__ import annotations

from dataclasses import replace

import pytest

from disco_mt.training.optimizer import learning_rate
from disco_mt.training.options import TrainingOptions


def test_the_papers_schedule() -> None:
    paper = TrainingOptions()
    rates = {step: learning_rate(step, paper) for step in (1, 5_000, 10_000, 10_001, 40_000, 1_000_000)}
    assert rates[1] == pytest.approx(5e-8)
    assert rates[5_000] == pytest.approx(2.5e-4)
    assert rates[10_000] == 5e-4
    assert 4.999e-4 < rates[10_001] < 5e-4
    assert rates[40_000] == pytest.approx(2.5e-4)
    assert rates[1_000_000] == pytest.approx(5e-5)


def test_a_cooldown_ends_at_nearly_zero() -> None:
    options = TrainingOptions(learning_rate=1.0, warmup_steps=4, max_steps=20)
    plain = [learning_rate(step, options) for step in range(1, 21)]
    cooled = [learning_rate(step, replace(options, cooldown_steps=10)) for step in range(1, 21)]
    assert cooled[:11] == plain[:11]
    assert [low / high for low, high in zip(cooled[10:], plain[10:], strict=True)] == pytest.approx(
        [tenths / 10 for tenths in range(10, 0, -1)]
    )


def test_one_step_of_warm_up_is_none() -> None:
    options = TrainingOptions(learning_rate=1.0, warmup_steps=1)
    assert learning_rate(1, options) == 1.0
    assert learning_rate(4, options) == 0.5
