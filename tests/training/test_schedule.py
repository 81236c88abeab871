"""Warm-up from 0 to the peak, then the inverse square root."""

from __future__ import annotations

import pytest

from disco_mt.training.schedule import learning_rate


def test_the_papers_schedule() -> None:
    rates = {
        step: learning_rate(step, 5e-4, 10_000) for step in (1, 5_000, 10_000, 10_001, 40_000, 1_000_000)
    }
    assert rates[1] == pytest.approx(5e-8)
    assert rates[5_000] == pytest.approx(2.5e-4)
    assert rates[10_000] == 5e-4
    assert 4.999e-4 < rates[10_001] < 5e-4
    assert rates[40_000] == pytest.approx(2.5e-4)
    assert rates[1_000_000] == pytest.approx(5e-5)


def test_a_cooldown_ends_at_nearly_zero() -> None:
    plain = [learning_rate(step, 1.0, 4) for step in range(1, 21)]
    cooled = [learning_rate(step, 1.0, 4, max_steps=20, cooldown_steps=10) for step in range(1, 21)]
    assert cooled[:11] == plain[:11]
    assert [low / high for low, high in zip(cooled[10:], plain[10:], strict=True)] == pytest.approx(
        [tenths / 10 for tenths in range(10, 0, -1)]
    )


def test_one_step_of_warm_up_is_none() -> None:
    assert learning_rate(1, 1.0, 1) == 1.0
    assert learning_rate(4, 1.0, 1) == 0.5
