"""The paper's figures as data."""

from __future__ import annotations

import pytest

from disco_mt.experiments import paper
from disco_mt.experiments.experiment import Options


def test_the_papers_gains_are_differences():
    """A slip in copying would show here: the printed gain is distilled - raw."""
    for by_direction in paper.DISTILLATION.values():
        for entry in by_direction.values():
            assert entry.gain == pytest.approx(entry.distilled - entry.raw, abs=1e-6)


def test_the_papers_tables_agree_where_they_do():
    easy = paper.STRATEGIES["Parallel Easy-First"]
    assert easy == paper.EASY_FIRST_TRAINING["Random Sampling"]
    distilled = paper.DISTILLATION["DisCo + EasyF, T=10"]
    assert {name: round(result.bleu, 1) for name, result in easy.items()} == {
        name: entry.distilled for name, entry in distilled.items()
    }
    assert pytest.approx(paper.SPEED_STEP_RATIO, abs=0.05) == paper.SPEED_AT_LENGTH / paper.SPEED_STEPS
    assert paper.MAIN["DisCo + Easy-First"]["en-zh"].steps == paper.SPEED_STEPS
    assert paper.CONTEXTLESS["Original"]["ro-en", "raw"] == paper.MAIN["AT Transformer Base"]["ro-en"].bleu


def test_the_papers_inconsistencies_are_there_as_they_are():
    strategies = paper.STRATEGIES["Mask-Predict"]["ro-en"].bleu
    assert (strategies, paper.DISTILLATION["DisCo + MaskP, T=10"]["ro-en"].distilled) == (34.54, 34.3)
    assert paper.CONTEXTLESS["Original"]["en-de", "raw"] != paper.MAIN["AT Transformer Base"]["en-de"].bleu
    assert any("34.54" in text and "34.3 " in text for text in paper.INCONSISTENCIES["distillation"])


def test_direction():
    assert paper.direction("de", "en", paper.DIRECTIONS) == "de-en"
    assert paper.direction("en", "fi", paper.DIRECTIONS) == "en-de"


def test_every_main_row_has_seven_or_fewer_directions():
    assert set(paper.MAIN["DisCo + Easy-First"]) == set(paper.DIRECTIONS)
    assert "en-ro" not in paper.MAIN["AT Transformer Base + Distillation"]
    assert paper.MAIN["AT Transformer Base + Distillation"]["zh-en"].bleu == 24.53


def test_options_that_were_changed_are_typed():
    assert Options(repeats=7).changed() == ["--repeats", "7"]
