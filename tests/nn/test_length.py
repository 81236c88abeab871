"""The length predictor: the prior, its correction by the network, and fitting the prior."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from disco_mt.cli import main
from disco_mt.core.errors import UserError
from disco_mt.data.dataset import Side, Split
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import Length
from disco_mt.nn.length import FURTHEST, length_log_probs, length_prior, shift_places
from disco_mt.systems.build import build_model, empty_model
from disco_mt.training.recipe import fit_length_prior
from small_model import make_small
from tiny import POOLED, PRIOR, padded, random_sources, tiny_config

HALF = Length("pooled", True, slope=0.5, offset=2.0, spread=1.0, spread_slope=0.25)


def lengths(model: TranslationModel, source: torch.Tensor) -> torch.Tensor:
    found = model.encode(source).length_log_probs
    assert found is not None
    return found


# The prior


def test_the_formula() -> None:
    """4 source tokens: 4 are expected, and the scores fall by 1/2 per token on both sides."""
    found = length_prior(HALF, torch.tensor([4, 8]), 8)
    assert found[0].tolist() == [-2.0, -1.5, -1.0, -0.5, 0.0, -0.5, -1.0, -1.5]
    third = 1 / 3  # 8 source tokens: 6 are expected, spread over 3
    assert found[1].tolist() == pytest.approx([-6 * third, *(-n * third for n in (5, 4, 3, 2, 1, 0, 1))])


def test_an_expectation_between_two_lengths() -> None:
    found = length_prior(replace(HALF, spread_slope=0.0), torch.tensor([3]), 6)
    assert found[0].tolist() == [-3.5, -2.5, -1.5, -0.5, -0.5, -1.5]


def test_length_0_cannot_be() -> None:
    """Of classes with scores 5, 0, log 3 the first is impossible: what remains is 1/4 and 3/4."""
    found = length_log_probs(torch.tensor([[5.0, 0.0, math.log(3)]])).exp()
    assert found[0].tolist() == pytest.approx([0, 0.25, 0.75])


def test_shifts_are_differences_from_the_rounded_expectation() -> None:
    found = shift_places(HALF, torch.tensor([4, 100]), 110)
    assert found[0, :6].tolist() == [FURTHEST + away for away in (-4, -3, -2, -1, 0, 1)]
    assert found[0, -1] == 2 * FURTHEST
    assert found[1, 0] == 0
    assert found[1, 52] == FURTHEST


# In models


@pytest.mark.parametrize("kind", ["disco", "cmlm"])
@torch.no_grad()
def test_a_pooled_predictor_begins_as_the_prior(kind: str) -> None:
    model = build_model(tiny_config(kind=kind, length=POOLED)).double()
    source = padded(random_sources([3, 9, 1]))
    expected = length_log_probs(length_prior(POOLED, torch.tensor([4, 10, 2]), 24).double())
    torch.testing.assert_close(lengths(model, source), expected)
    assert lengths(model, source).exp()[:, 0].tolist() == [0, 0, 0]
    assert lengths(model, source).exp().sum(1).tolist() == pytest.approx([1, 1, 1])


@torch.no_grad()
def test_a_slot_adds_the_prior_to_its_scores() -> None:
    config = tiny_config(length=Length())
    plain, prior = build_model(config), build_model(replace(config, length=PRIOR))
    source = padded(random_sources([5, 2]))
    before, after = lengths(plain, source), lengths(prior, source)
    expected = length_log_probs(before + length_prior(PRIOR, torch.tensor([6, 3]), 24))
    torch.testing.assert_close(after, expected)
    assert after.argmax(dim=1).tolist() == [6, 3]  # 0.9 * 6 + 0.6 = 6.0 and 0.9 * 3 + 0.6 = 3.3


@pytest.mark.parametrize("length", [Length(), PRIOR, POOLED], ids=["slot", "slot with prior", "pooled"])
@torch.no_grad()
def test_padding_does_not_matter(make_model: Callable[..., TranslationModel], length: Length) -> None:
    model, sentences = make_model(length=length), random_sources([3, 8, 1])
    together = lengths(model, padded(sentences, extra=4))
    for row, sentence in enumerate(sentences):
        torch.testing.assert_close(lengths(model, padded([sentence]))[0], together[row])


def test_a_correction_is_learnt_and_holds_for_other_lengths() -> None:
    """Targets are two tokens longer than the prior expects; sentences of 3 words teach those of 12."""
    model = build_model(tiny_config(length=replace(POOLED, slope=1.0, offset=0.0)))
    assert model.length is not None
    optimizer = torch.optim.Adam(model.length.parameters(), lr=0.02)
    source = padded(random_sources([3] * 8))
    for _ in range(60):
        optimizer.zero_grad()
        (-lengths(model, source)[:, 6].mean()).backward()
        optimizer.step()
    found = lengths(model, padded(random_sources([3, 12], seed=1)))
    assert found.argmax(dim=1).tolist() == [6, 15]


def test_refusals() -> None:
    with pytest.raises(UserError, match="'pooled' predicts a difference from the prior; set"):
        Length("pooled")
    with pytest.raises(UserError, match="must be one of slot, pooled; got 'guess'"):
        Length("guess")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="spread must be at least 0, got nan"):
        Length(spread=math.nan)
    with pytest.raises(UserError, match=r"length\.prior is for models that predict a length"):
        build_model(tiny_config(kind="autoregressive", length=PRIOR))


@pytest.mark.parametrize("predictor", ["slot", "pooled"])
@pytest.mark.parametrize("build", [build_model, empty_model])
def test_a_prior_without_its_numbers_is_refused(predictor: str, build: Callable[..., object]) -> None:
    config = tiny_config(length=Length(predictor, True, slope=1.0))  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"model\.length\.prior needs its numbers"):
        build(config)


# The fit


def split_of(pairs: list[tuple[int, int]]) -> Split:
    """Sentences with these numbers of words (without EOS)."""

    def side(numbers: list[int]) -> Side:
        offsets = np.concatenate([[0], np.cumsum(numbers)])
        return Side(np.zeros(offsets[-1], np.uint16), offsets)

    sources, targets = (list(each) for each in zip(*pairs, strict=True))
    return Split(Path(), "train", side(sources), side(targets))


FREE = Length("pooled", True)


def test_the_fit_recovers_a_line() -> None:
    """Tokens with EOS: target = 1.5 source - 1, exactly; the spread is the least there is."""
    found = fit_length_prior(FREE, split_of([(source, (3 * source - 1) // 2) for source in range(1, 40, 2)]))
    assert (found.slope, found.offset) == pytest.approx((1.5, -1.0), abs=1e-3)
    assert (found.spread, found.spread_slope) == pytest.approx((0.5, 0.0), abs=1e-3)
    assert found.fitted
    assert found.predictor == "pooled"


def test_long_sentences_weigh_less() -> None:
    """Tokens (2, 2), (4, 6), (8, 8), squares divided by the source: slope 14/13 and offset 4/13, by hand."""
    found = fit_length_prior(FREE, split_of([(1, 1), (3, 5), (7, 7)]))
    assert (found.slope, found.offset) == pytest.approx((14 / 13, 4 / 13), abs=1e-4)


def test_the_fit_recovers_the_spread() -> None:
    """Half of the targets are longer by 1/8 of the source + 1, half are shorter by as much."""
    pairs = [
        (source, source + sign * ((source + 1) // 8 + 1)) for source in range(15, 400, 8) for sign in (1, -1)
    ]
    found = fit_length_prior(FREE, split_of(pairs))
    assert (found.slope, found.offset) == pytest.approx((1.0, 0.0), abs=1e-3)
    assert (found.spread, found.spread_slope) == pytest.approx((1.0, 0.125), abs=1e-3)


def test_a_spread_that_falls_with_the_length_is_constant() -> None:
    """Short sentences miss by 4, long ones by nothing: 2 on average, not the 4 or more of length 0."""
    pairs = [(10, 6), (10, 14), (20, 20), (20, 20)]
    found = fit_length_prior(FREE, split_of(pairs))
    assert (found.spread, found.spread_slope) == pytest.approx((2.0, 0.0), abs=1e-3)


@pytest.mark.parametrize("pairs", [[(4, 7)], [(4, 7)] * 5], ids=["one pair", "all alike"])
def test_constant_lengths(pairs: list[tuple[int, int]]) -> None:
    found = fit_length_prior(FREE, split_of(pairs))
    assert (found.slope, found.offset, found.spread, found.spread_slope) == (0.0, 8.0, 0.5, 0.0)
    model = build_model(tiny_config(length=found))
    assert lengths(model, padded(random_sources([4]))).argmax() == 8


def test_training_fits_the_prior_and_stores_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small, run = make_small(tmp_path), tmp_path / "run"
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        "[model]\nwidth = 16\nencoder = {layers = 1, heads = 2, hidden = 16}\n"
        "decoder = {layers = 1, heads = 2, hidden = 16}\nlength = {predictor = 'pooled', prior = true}\n"
        "[training]\nbatch_tokens = 512\nmax_tokens = 512\nmax_steps = 1\n[decoding]\nlength_beam = 1\n"
        "iterations = 1\n"
    )
    assert main(["train", str(recipe), "--data", str(small.dataset), "--out", str(run), "--quiet"]) == 0
    (best,) = (run / "best").iterdir()
    length = json.loads((best / "config.json").read_text())["model"]["length"]
    assert length["predictor"] == "pooled"
    assert 0.5 < length["slope"] < 2  # word for word, but for the pieces that words have
    assert length["spread"] + length["spread_slope"] > 0
    assert json.loads((run / "run.json").read_text())["recipe"]["model"]["length"] == length
