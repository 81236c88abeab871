"""Percentiles, ratios, exponents: against numbers that can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from disco_mt.bench.statistics import exponent, groups, latency, ratio


def test_latency_is_the_median_over_repeats_and_the_percentiles_of_all_times() -> None:
    found = latency([[0.010, 0.020], [0.012, 0.022], [0.100, 0.024]])  # one hiccup
    assert found.mean == pytest.approx((12 + 22) / 2)
    assert (found.low, found.high) == pytest.approx((15, 62))
    assert found.p50 == pytest.approx(21)
    assert found.p90 == pytest.approx(62)
    assert found.p99 == pytest.approx(96.2)


def test_latency_of_some_sentences() -> None:
    assert latency([[0.010, 0.020, 0.030]], [0, 2]).p50 == pytest.approx(20)


def test_a_ratio_says_how_many_times_as_fast_the_second_is() -> None:
    found = ratio([[0.2, 0.4]] * 5, [[0.1, 0.2]] * 5)
    assert (found.estimate, found.low, found.high) == pytest.approx((2, 2, 2))


def test_one_hiccup_does_not_change_a_ratio() -> None:
    slow, fast = [[0.2, 0.4] for _ in range(5)], [[0.1, 0.2] for _ in range(5)]
    fast[2] = [5.0, 5.0]
    assert ratio(slow, fast).estimate == pytest.approx(2)


def test_the_interval_grows_with_the_noise_and_holds_the_truth() -> None:
    draw = np.random.default_rng(0)

    def times(mean: float, noise: float) -> list[list[float]]:
        found: list[list[float]] = (mean * draw.lognormal(0, noise, (7, 10))).tolist()
        return found

    calm, wild = ratio(times(1.5, 0.01), times(1, 0.01)), ratio(times(1.5, 0.3), times(1, 0.3))
    assert calm.low < 1.5 < calm.high or calm.estimate == pytest.approx(1.5, rel=0.02)
    assert wild.high - wild.low > 5 * (calm.high - calm.low)
    same = ratio(times(1, 0.1), times(1, 0.1))
    assert same.low <= 1 <= same.high


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law(power: float) -> None:
    sizes = [10, 20, 50, 100]
    found = exponent(sizes, [[0.003 * n**power for n in sizes]] * 3)
    assert (found.estimate, found.low, found.high) == pytest.approx((power, power, power), abs=1e-9)


def test_groups_by_length() -> None:
    assert groups([25, 10, 25]) == {"10": [1], "25": [0, 2]}
    lengths = [5, 6, 7, 8, 9, 10, 11, 12, 40]
    found = groups(lengths)
    assert sorted(place for places in found.values() for place in places) == list(range(len(lengths)))
    assert list(found) == ["5-7", "8-9", "10-11", "12-40"]
