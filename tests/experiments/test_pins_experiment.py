"""The pins experiment's own arithmetic: which words are drawn, taken out, pasted in."""

from __future__ import annotations

from disco_mt.experiments.decode import Lab
from disco_mt.experiments.experiment import Options
from disco_mt.experiments.pins import (
    NUMBERS,
    drawn_words,
    f1_gain,
    pasted,
    run,
    without,
    word_f1,
    word_matches,
)


def test_words_are_drawn_from_the_reference_and_leave_others() -> None:
    reference = "Das alte Haus, das „Kind“ – sieht 1 Haus!"
    every = {word for n in range(40) for word in drawn_words(reference, 3, str(n))}
    assert every == {"Das", "alte", "Haus", "das", "Kind", "sieht", "1"}
    assert drawn_words(reference, 3, "a") == drawn_words(reference, 3, "a")
    assert len(set(drawn_words(reference, 6, "b"))) == 6
    assert drawn_words(reference, 7, "a") == ()


def test_without() -> None:
    assert without("Das Haus, das Haus.", ["Haus", "das"]) == "Das , Haus."
    assert without("Das Haustier", ["Haus"]) == "Das Haustier"


def test_pasted() -> None:
    reference = "Heute sieht das Kind"
    assert pasted("er sieht es", ["sieht", "Kind"], reference) == "er sieht Kind es"
    assert pasted("er sieht es", ["Heute"], reference) == "Heute er sieht es"
    assert pasted("", ["das"], reference) == "das"


def test_f1_of_words() -> None:
    found = word_matches(["das Haus, das", "Kind", ""], ["Das Haus das", "ein Kind", "da"])
    assert found.tolist() == [[2, 3, 3], [1, 1, 2], [0, 0, 1]]
    assert word_f1(found) == 200 * 3 / (4 + 6)
    assert word_f1(found[:0]) == 0


def test_a_gain_has_an_interval() -> None:
    worse = word_matches(["a b", "c"] * 30, ["a x", "d"] * 30)
    better = word_matches(["a x", "c"] * 30, ["a x", "d"] * 30)
    gain = f1_gain(worse, better, 200)
    assert gain.estimate == word_f1(better) - word_f1(worse)
    assert 0 < gain.low < gain.estimate < gain.high
    assert f1_gain(worse, worse, 50).above() == "undecided"


def test_every_pin_is_kept_and_both_sides_have_it(lab: Lab) -> None:
    report = run(lab, Options(samples=20))
    kept = [verdict for verdict in report.verdicts if "all are kept" in verdict.claim]
    assert [(verdict.answer, verdict.evidence) for verdict in kept] == [("yes", "100.00 %")] * 6
    assert len(report.tables[0].rows) == 3 * len(NUMBERS)
    assert report.notes == ()
