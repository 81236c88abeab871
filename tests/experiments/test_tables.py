"""Markdown, the paper's figures, the clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from disco_mt.experiments import paper
from disco_mt.experiments.experiment import Options
from disco_mt.experiments.variants import averaged, for_updates, with_batch
from disco_mt.training.options import TrainingOptions


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


def test_variants_of_training():
    options = TrainingOptions(
        batch_tokens=2048, max_tokens=1024, max_epochs=80, patience=10, warmup_steps=500
    )
    small = with_batch(options, 256)
    assert (small.batch_tokens, small.max_tokens) == (256, 256)
    assert with_batch(options, 4096).max_tokens == 1024
    short = for_updates(options, 100, average=5)
    assert (short.max_steps, short.max_epochs, short.patience, short.warmup_steps) == (100, 0, 0, 25)
    assert (short.dev_every, for_updates(options, 5, average=5).dev_every) == (10, 1)
    assert for_updates(options, 20_000, average=5).warmup_steps == 500
    cooling = replace(options, max_steps=7000, cooldown_steps=4500)
    assert [for_updates(cooling, steps, 5).cooldown_steps for steps in (700, 14_000)] == [450, 9000]
    assert short.cooldown_steps == 0
    assert (for_updates(cooling, 700, 5).dev_every, averaged(cooling, 5), averaged(short, 5)) == (700, 1, 5)
    assert (Options().updates, Options(scale="paper").updates, Options(steps=7).updates) == (
        20_000,
        300_000,
        7,
    )
    assert Options(steps=7, scale="paper").changed() == ["--scale", "paper", "--steps", "7"]
