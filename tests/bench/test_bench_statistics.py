"""Exponents and groups: against numbers that can be worked out by hand."""

from __future__ import annotations

import pytest

from disco_mt.bench.statistics import exponent, groups


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
