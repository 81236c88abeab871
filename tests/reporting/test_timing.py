"""The timing harness: who goes first, percentiles and ratios against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from disco_mt.reporting.load import Load
from disco_mt.reporting.timing import WARM_UP, latency, ratio, rotated, spread, take_turns


def test_systems_take_turns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is warmed up, another one goes first in each repeat, and a busy machine is spoken of."""
    order: list[str] = []
    clock = iter(range(1000))
    busy = Load(1.5, 1.5, 1.5, 2)
    monkeypatch.setattr("disco_mt.reporting.timing.time.perf_counter", lambda: float(next(clock)))
    monkeypatch.setattr("disco_mt.reporting.timing.LoadGuard.hint", lambda _: "the machine is busy")
    monkeypatch.setattr("disco_mt.reporting.timing.LoadGuard.result", lambda _: busy)
    timing = take_turns({"a": lambda _: order.append("a"), "b": lambda _: order.append("b")}, "xyz", 3)
    assert order == ["a"] * WARM_UP + ["b"] * WARM_UP + [*"aaabbb", *"bbbaaa", *"aaabbb"]
    assert timing.seconds == {"a": [[1.0] * 3] * 3, "b": [[1.0] * 3] * 3}
    assert timing.latency("a").mean == 1000.0
    assert timing.speedup("a", "b", 10).estimate == 1.0
    assert "busy" in capsys.readouterr().err
    assert "the machine was busy" in timing.notes("1 thread")[-1]


def test_rotation() -> None:
    assert [rotated("abc", turn) for turn in range(4)] == [[*"abc"], [*"bca"], [*"cab"], [*"abc"]]
    assert rotated([], 3) == []


def test_spread() -> None:
    assert spread("abcdefgh", 4) == ["a", "c", "e", "g"]
    assert spread("ab", 5) == ["a", "b"]


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
