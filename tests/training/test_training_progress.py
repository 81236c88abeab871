"""Bars on a terminal, lines elsewhere, warnings always."""

from __future__ import annotations

import sys

import pytest

from disco_mt.training.progress import Figures, duration, progress

FIGURES = Figures(step=20, loss=2.5, tokens_per_second=12_345.6, bleu=31.234)


def test_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(total=100, done=10, quiet=False) as shown:
        shown.show(FIGURES)
        shown.line(FIGURES)
        shown.line(Figures(step=21))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("step 20 of 100  loss 2.500  12,346 tokens/s  dev 31.23 BLEU  ")
    assert err.count("\n") == 2


def test_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(total=100, done=0, quiet=True) as shown:
        shown.say("hello")
        shown.show(FIGURES)
        shown.line(FIGURES)
        shown.warn("danger")
    assert capsys.readouterr() == ("", "warning: danger\n")


def test_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "150")
    with progress(total=100, done=0, quiet=False) as shown:
        shown.say("[an update]")  # not markup
        shown.show(FIGURES)
        shown.line(FIGURES)
    out, err = capsys.readouterr()
    assert out == ""
    assert "[an update]" in err
    assert "20/100" in err
    assert "loss 2.500  12,346 tokens/s  dev 31.23 BLEU" in err


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.9, "59 s"), (61, "1 min 01 s"), (3_725, "1 h 02 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
