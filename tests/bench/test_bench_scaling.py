"""Time of a pass: a difference of decodings, and its growth in words."""

from __future__ import annotations

import pytest
from runs import CALM

from disco_mt.bench.measure import Measured, Result, Times
from disco_mt.bench.runners import IncrementalRunner
from disco_mt.bench.scaling import (
    PASSES,
    Growth,
    cases,
    exponent,
    growths,
    in_words,
    scaling_entries,
    scaling_plan,
)
from disco_mt.reporting.intervals import Interval


def linear(words: int, beam: int, passes: int) -> float:
    """Seconds: an encoder, then passes that cost a millisecond for each word of each candidate."""
    return 0.5 + passes * words * beam / 1000


def test_growth_is_found_in_times_that_are_linear() -> None:
    sentences, plan = scaling_plan("desk", 3, quick=False)
    row = [linear(words, beam, passes) for words, beam in cases(False) for passes in (1, PASSES)]
    result = Result(scaling_entries("desk")[0], {1: Times([row] * 3, [row] * 3)})
    by_length, by_beam = growths(Measured(plan, tuple(sentences), (result,), {}, CALM))
    assert by_length.sizes == (10, 25, 50, 75, 100)
    assert by_length.times == pytest.approx((50, 125, 250, 375, 500))
    assert by_beam.sizes == (1, 2, 5, 10)
    assert by_beam.times == pytest.approx((25, 50, 125, 250))
    for each in (by_length, by_beam):
        assert each.power.estimate == pytest.approx(1.0)
    assert "in length: time ~ length to the power 1.00 [1.00, 1.00]" in in_words(by_length)


def test_every_row_of_every_pass_is_predicted() -> None:
    sentences, _ = scaling_plan("desk", 1, quick=True)
    for sentence in sentences:
        assert sentence.structure is not None
        every = tuple(tuple(range(length)) for length in sentence.structure.lengths)
        assert set(sentence.structure.rows) == {every}
    assert [len(sentence.structure.lengths) for sentence in sentences[-4:] if sentence.structure] == [
        1,
        1,
        5,
        5,
    ]


def test_no_candidate_is_left_out() -> None:
    sentences, _ = scaling_plan("desk", 1, quick=False)
    most = max(len(sentence.structure.lengths) for sentence in sentences if sentence.structure)
    runner = IncrementalRunner(scaling_entries("desk")[0], threads=1)
    last = sentences[-1]  # several passes, largest K
    (found,) = runner.translate([last])
    assert most == 10
    assert last.structure is not None
    assert found.work.rows == PASSES * sum(last.structure.lengths)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law(power: float) -> None:
    sizes = [10, 20, 50, 100]
    found = exponent(sizes, [[0.003 * n**power for n in sizes]] * 3)
    assert (found.estimate, found.low, found.high) == pytest.approx((power, power, power), abs=1e-9)


@pytest.mark.parametrize(
    ("power", "answer"),
    [
        (Interval(0.8, 0.7, 0.9), "more slowly than linearly"),
        (Interval(0.9, 0.7, 1.1), "linearly, as far as this run can tell,"),
        (Interval(1.05, 0.9, 1.1), "linearly, as far as this run can tell,"),
        (Interval(1.5, 1.4, 1.6), ": a pass grows faster than linearly"),
    ],
)
def test_growth_in_words(power: Interval, answer: str) -> None:
    assert answer in in_words(Growth("DisCo", "K", (1, 2), ((1.0, 2.0),), power))
