"""Rescoring equals scoring candidates one by one; reading DisCo left to right equals its slow definition."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from disco_mt.systems.disco.autoregressive import read_autoregressively
from disco_mt.systems.disco.easy_first import easy_first

from disco_mt import context
from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import EOS, MASK
from disco_mt.decoding.length_beam import Candidates, best_lengths
from disco_mt.decoding.refinement import refine
from disco_mt.decoding.reranking import (
    check_same_vocabulary,
    pick,
    read_candidates,
    rescore,
    score_candidates,
)
from disco_mt.systems.autoregressive.decoding import beam_search
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.disco.model import DisCo
from tiny import MARIAN, padded, random_options, random_sources

Make = Callable[..., Any]


@torch.inference_mode()
def greedy_at(model: DisCo, source: list[int], length: int) -> tuple[list[int], list[float]]:
    """Y_n = argmax P(Y_n | Y_<n, X) at a given length, each word with a pass of its own."""
    words, log_probs = [MASK] * length, []
    encoded = model.encode(padded([source]))
    for n in range(length):
        target = torch.tensor([[*words, EOS]])
        real, eos = context.words_and_eos(target)
        hidden = model.decode(target, context.left_to_right(real, eos), encoded)
        best = model.best_words(hidden[0, n : n + 1])
        words[n] = int(best.ids)
        log_probs.append(float(best.log_probs))
    return words, log_probs


def left_to_right(_: torch.Tensor, candidates: Candidates) -> torch.Tensor:
    return context.left_to_right(candidates.words, candidates.eos)


@pytest.mark.parametrize("seed", range(25))
def test_reading_is_left_to_right_refinement_that_has_come_to_rest(make_model: Make, seed: int) -> None:
    options = random_options(random.Random(seed)) if seed > 4 else {}
    model, source = make_model(seed, **options), padded(random_sources([4, 9, 2, 6], seed))
    refined = refine(model, source, left_to_right, "left-to-right", iterations=24, beam=1, trace=False)
    for read, rest in zip(read_autoregressively(model, source, length_beam=1), refined, strict=True):
        assert read.tokens == rest.tokens
        assert read.probabilities == pytest.approx(rest.probabilities, abs=1e-10)
        assert read.score == pytest.approx(rest.score, abs=1e-10)
        assert read.steps == len(read.tokens)


@pytest.mark.parametrize("options", [{}, MARIAN], ids=["default", "converted"])
@pytest.mark.parametrize("weight", [0.0, 0.5, 3.0])
def test_reading_is_greedy_decoding_at_every_length(
    make_model: Make, weight: float, options: dict[str, object]
) -> None:
    model, sources = make_model(2, **options), random_sources([3, 8, 5], seed=4)
    for source, found in zip(
        sources, read_autoregressively(model, padded(sources, 2), 4, weight), strict=True
    ):
        lengths, log_probs = best_lengths(model.encode(padded([source])).length_log_probs, 4, 22)
        slow = [greedy_at(model, source, length) for length in lengths[0].tolist()]
        assert [list(words) for words in found.candidates] == [words for words, _ in slow]
        scores = [
            (sum(logs) + weight * length) / len(logs)
            for (_, logs), length in zip(slow, log_probs[0].tolist(), strict=True)
        ]
        winner = scores.index(max(scores))
        assert list(found.tokens) == slow[winner][0]
        assert found.probabilities == pytest.approx(torch.tensor(slow[winner][1]).exp().tolist(), abs=1e-6)
        assert found.steps == int(lengths.max())


def test_reading_does_not_depend_on_the_batch(make_model: Make) -> None:
    model, sources = make_model(7), random_sources([3, 8, 5, 1], seed=1)
    together = read_autoregressively(model, padded(sources, 3), 3)
    for source, found in zip(sources, together, strict=True):
        alone = read_autoregressively(model, padded([source]), 3)[0]
        assert (alone.tokens, alone.steps, alone.candidates) == (found.tokens, found.steps, found.candidates)
        assert alone.score == pytest.approx(found.score, abs=1e-10)


def test_an_autoregressive_reader_scores_as_beam_search_does(make_model: Make) -> None:
    model, source = make_model(1, kind="autoregressive"), padded(random_sources([4, 7]))
    assert isinstance(model, Autoregressive)
    found = beam_search(model, source, 3, 1.0)
    candidates = [[(5, 6), hypothesis.tokens] for hypothesis in found]
    for hypothesis, scores in zip(found, score_candidates(model, source, candidates, 0.0), strict=True):
        assert scores[1] == pytest.approx(hypothesis.score, abs=1e-10)
        assert scores[0] < scores[1]


def test_a_disco_reader_scores_as_it_reads(make_model: Make) -> None:
    model, sources = make_model(3), random_sources([4, 7, 2])
    source = padded(sources)
    read = read_autoregressively(model, source, 4)
    scores = score_candidates(model, source, [[found.tokens] for found in read], length_weight=0.0)
    assert [s[0] for s in scores] == pytest.approx([found.score for found in read], abs=1e-10)
    weighted = score_candidates(model, source, [[found.tokens] for found in read], length_weight=2.0)
    lengths = model.encode(source).length_log_probs.detach()
    for b, found in enumerate(read):
        words = len(found.tokens)
        assert weighted[b][0] == pytest.approx(found.score + 2 * float(lengths[b, words + 1]) / words)


@torch.inference_mode()
def test_reading_both_ways_is_the_mean_of_two_readings(make_model: Make) -> None:
    model, sources = make_model(3), random_sources([4, 7])
    candidates = [[(7, 9, 8), (8, 7, 9, 9, 6)], [(9, 9), (6, 7, 8, 9)]]
    both = read_candidates(model, padded(sources), candidates, both_ways=True)
    one = read_candidates(model, padded(sources), candidates)
    for b, source in enumerate(sources):
        encoded = model.encode(padded([source]))
        for k, words in enumerate(candidates[b]):
            target = torch.tensor([[*words, EOS]])
            visible = context.right_to_left(*context.words_and_eos(target))
            hidden = model.decode(target, visible, encoded)[0, : len(words)]
            back = model.word_log_probs(hidden, target[0, : len(words)]).tolist()
            expected = [(there + other) / 2 for there, other in zip(one[b][k].words, back, strict=True)]
            assert both[b][k].words == pytest.approx(expected, abs=1e-10)
            assert both[b][k].end == pytest.approx(one[b][k].end, abs=1e-10)
            assert both[b][k].words != one[b][k].words


def test_an_autoregressive_reader_reads_one_way_only(make_model: Make) -> None:
    model, source = make_model(3, kind="autoregressive"), padded(random_sources([4]))
    one, both = (score_candidates(model, source, [[(7, 9, 8)]], 0.0, ways) for ways in (False, True))
    assert one == both


@pytest.mark.parametrize("kind", ["autoregressive", "disco"])
def test_rescoring_picks_what_its_reader_likes_best(make_model: Make, kind: str) -> None:
    maker, reader = make_model(0), make_model(5, kind=kind)
    sources = random_sources([5, 9, 3, 7, 6])
    source = padded(sources)
    made = easy_first(maker, source, 4, 5)
    assert all(len(hypothesis.candidates) == 5 for hypothesis in made)
    chosen = rescore(reader, source, made, 0.3)
    for b, (before, after) in enumerate(zip(made, chosen, strict=True)):
        one_by_one = [
            score_candidates(reader, padded([sources[b]]), [[words]], 0.3)[0][0]
            for words in before.candidates
        ]
        assert after.score == pytest.approx(max(one_by_one), abs=1e-10)
        assert after.tokens == before.candidates[one_by_one.index(max(one_by_one))]
        assert len(after.probabilities) == len(after.tokens)
        assert after.steps == before.steps + 1
    assert any(before.tokens != after.tokens for before, after in zip(made, chosen, strict=True))


def test_the_length_weight_needs_no_second_reading(make_model: Make) -> None:
    model, source = make_model(0), padded(random_sources([5, 9, 3, 7, 6]))
    made = easy_first(model, source, 2, 8)
    readings = read_candidates(model, source, [list(hypothesis.candidates) for hypothesis in made])
    chosen = [pick(made, readings, weight) for weight in (0.0, 100.0)]
    assert [h.tokens for h in chosen[0]] == [h.tokens for h in rescore(model, source, made, 0.0)]
    assert [h.tokens for h in chosen[0]] != [h.tokens for h in chosen[1]]


def test_too_long_candidates_are_named(make_model: Make) -> None:
    with pytest.raises(UserError, match="40 words, but the rescoring model reads 22 at most"):
        score_candidates(make_model(0), padded(random_sources([3])), [[(7,) * 40]], 0.0)


def test_a_foreign_vocabulary_is_named() -> None:
    side = {"language": "en", "sha256": "abc"}
    text = {"source": side, "target": {"language": "de", "sha256": "def"}}
    check_same_vocabulary(text, {**text, "joint": True})
    with pytest.raises(UserError, match=r"target tokenizer .* is def in one and 123 in the other"):
        check_same_vocabulary(text, {**text, "target": {"language": "de", "sha256": "123"}})
    with pytest.raises(UserError, match="source language is en in one and de in the other"):
        check_same_vocabulary(text, {**text, "source": {**side, "language": "de"}})
