"""Verdicts: intervals by hand, the contrast against the plain bootstrap, claims that must come out."""

from __future__ import annotations

import pytest

from disco_mt.evaluation.quality import paired_bootstrap
from disco_mt.reporting.intervals import Interval, correlation, mean_difference
from disco_mt.reporting.verdicts import Judge

WORDS = ("der", "die", "das", "ein", "alter", "Hund", "Mann", "Garten", "Ball", "sieht", "wirft", "im", "am")
REFERENCES = [[" ".join(WORDS[(i * k + k) % len(WORDS)] for k in range(1, 9))] for i in range(40)]
GOOD = tuple(lines[0] for lines in REFERENCES)


def spoilt(every: int) -> tuple[str, ...]:
    """Every so many sentences another last word, more often than not a worse one."""
    return tuple(text.rsplit(" ", 2)[0] if i % every == 0 else text for i, text in enumerate(GOOD))


def judge() -> Judge:
    return Judge(REFERENCES, "de", samples=100)


def test_answers():
    assert [Interval(1, 0.1, 2).above(), Interval(1, -1, 2).above(), Interval(-1, -2, -0.1).above()] == [
        "yes",
        "undecided",
        "no",
    ]
    assert Interval(-1, -2, -0.1).below() == "yes"
    assert Interval(2, 1, 3).below(4) == "yes"
    assert Interval(2, 1, 3).below(2.5) == "undecided"
    assert str(Interval(0.5, -0.25, 1)) == "+0.50 [-0.25, +1.00]"


def test_better_and_comparable():
    better, slightly = GOOD, spoilt(20)
    assert judge().better("", better, spoilt(2)).answer == "yes"
    assert judge().better("", spoilt(2), better).answer == "no"
    assert judge().better("", better, better).answer == "undecided"
    assert judge().comparable("", better, better).answer == "yes"
    assert judge().comparable("", spoilt(2), better).answer == "no"
    assert judge().comparable("", slightly, better, margin=20).answer == "yes"


def test_the_difference_is_that_of_the_paired_bootstrap():
    a, b = spoilt(3), spoilt(5)
    found = judge().difference(a, b)
    expected = paired_bootstrap(b, a, REFERENCES, "de", samples=100)
    assert (found.estimate, found.low, found.high) == (expected.difference, expected.low, expected.high)


def test_a_contrast_with_nothing_gained_elsewhere_is_the_difference():
    """(b - a) - (c - c), resampled as paired_bootstrap does it."""
    a, b = spoilt(3), spoilt(5)
    contrast, plain = judge().gain_difference((a, b), (GOOD, GOOD)), judge().difference(b, a)
    assert contrast.estimate == pytest.approx(plain.estimate)
    assert (contrast.low, contrast.high) == pytest.approx((plain.low, plain.high))


def test_gains_more():
    much, little = (spoilt(2), GOOD), (spoilt(20), GOOD)
    assert judge().gains_more("", much, little).answer == "yes"
    assert judge().gains_more("", little, much).answer == "no"
    assert judge().gains_more("", much, much).answer == "undecided"


def test_means_and_correlation():
    steps = mean_difference([2, 3, 2, 3] * 10, [10] * 40, 100)
    assert steps.estimate == -7.5
    assert steps.below() == "yes"
    assert correlation([1, 2, 3, 4] * 5, [2, 4, 6, 8] * 5, 100).low > 0.99
    assert correlation([1, 2, 3], [5, 5, 5], 100) == Interval(0.0, 0.0, 0.0)
