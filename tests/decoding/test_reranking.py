"""Reranking equals scoring candidates one by one; decoding left to right equals its slow definition."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from disco_mt import context
from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import EOS, MASK
from disco_mt.decoding.length_beam import best_lengths
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.reranking import Reranker, best_candidate, check_same_vocabulary
from disco_mt.decoding.results import CandidateScore, Hypothesis
from disco_mt.nn.base import TranslationModel
from disco_mt.systems import decode
from disco_mt.systems.autoregressive.decoding import beam_search
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.build import reranker_of
from disco_mt.systems.disco.decoding import decode_autoregressively
from disco_mt.systems.disco.model import DisCo
from tiny import MARIAN, padded, random_options, random_sources

Words = tuple[int, ...]
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


def reranker(model: TranslationModel) -> Reranker:
    found = reranker_of(model)
    assert found is not None
    return found


def scores_of(
    model: TranslationModel, source: torch.Tensor, candidates: list[list[Words]], length_weight: float
) -> list[list[float]]:
    """The scores of the candidates of each sentence."""
    found = reranker(model).candidate_scores(source, candidates)
    return [[score.mean(length_weight) for score in sentence] for sentence in found]


def word_by_word(
    model: DisCo, source: torch.Tensor, length_beam: int, length_weight: float | None = None
) -> list[Hypothesis[int]]:
    options = DecodingOptions("autoregressive", length_beam=length_beam, length_weight=length_weight)
    return decode_autoregressively(model, source, options, DecodeRequest())


@pytest.mark.parametrize("seed", range(25))
def test_decoding_word_by_word_is_left_to_right_refinement_that_has_converged(
    make_model: Make, seed: int
) -> None:
    options = random_options(random.Random(seed)) if seed > 4 else {}
    model, source = make_model(seed, **options), padded(random_sources([4, 9, 2, 6], seed))
    refined = decode(model, source, DecodingOptions("left-to-right", iterations=24, length_beam=1))
    for found, expected in zip(word_by_word(model, source, 1), refined, strict=True):
        assert found.tokens == expected.tokens
        assert found.probabilities == pytest.approx(expected.probabilities, abs=1e-10)
        assert found.score == pytest.approx(expected.score, abs=1e-10)
        assert found.steps == len(found.tokens)


@pytest.mark.parametrize("options", [{}, MARIAN], ids=["default", "converted"])
@pytest.mark.parametrize("weight", [0.0, 0.5, 3.0])
def test_decoding_word_by_word_is_greedy_at_every_length(
    make_model: Make, weight: float, options: dict[str, object]
) -> None:
    model, sources = make_model(2, **options), random_sources([3, 8, 5], seed=4)
    for source, found in zip(sources, word_by_word(model, padded(sources, 2), 4, weight), strict=True):
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


def test_decoding_word_by_word_does_not_depend_on_the_batch(make_model: Make) -> None:
    model, sources = make_model(7), random_sources([3, 8, 5, 1], seed=1)
    together = word_by_word(model, padded(sources, 3), 3)
    for source, found in zip(sources, together, strict=True):
        (alone,) = word_by_word(model, padded([source]), 3)
        assert (alone.tokens, alone.steps, alone.candidates) == (found.tokens, found.steps, found.candidates)
        assert alone.score == pytest.approx(found.score, abs=1e-10)


def test_an_autoregressive_reranker_scores_as_beam_search_does(make_model: Make) -> None:
    model, source = make_model(1, kind="autoregressive"), padded(random_sources([4, 7]))
    assert isinstance(model, Autoregressive)
    found = beam_search(model, source, 3, 1.0)
    candidates = [[(5, 6), hypothesis.tokens] for hypothesis in found]
    for hypothesis, scores in zip(found, scores_of(model, source, candidates, 0.0), strict=True):
        assert scores[1] == pytest.approx(hypothesis.score, abs=1e-10)
        assert scores[0] < scores[1]


def test_a_disco_reranker_scores_as_it_decodes_word_by_word(make_model: Make) -> None:
    model, sources = make_model(3), random_sources([4, 7, 2])
    source = padded(sources)
    decoded = word_by_word(model, source, 4)
    candidates = [[found.tokens] for found in decoded]
    scores = scores_of(model, source, candidates, length_weight=0.0)
    assert [s[0] for s in scores] == pytest.approx([found.score for found in decoded], abs=1e-10)
    weighted = scores_of(model, source, candidates, length_weight=2.0)
    lengths = model.encode(source).length_log_probs.detach()
    for b, found in enumerate(decoded):
        words = len(found.tokens)
        assert weighted[b][0] == pytest.approx(found.score + 2 * float(lengths[b, words + 1]) / words)


@torch.inference_mode()
def test_a_score_in_both_directions_is_the_mean_of_the_two(make_model: Make) -> None:
    model, sources = make_model(3), random_sources([4, 7])
    candidates = [[(7, 9, 8), (8, 7, 9, 9, 6)], [(9, 9), (6, 7, 8, 9)]]
    both = reranker(model).candidate_scores(padded(sources), candidates, both_directions=True)
    one = reranker(model).candidate_scores(padded(sources), candidates)
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


def test_an_autoregressive_reranker_scores_in_one_direction_only(make_model: Make) -> None:
    model, source = make_model(3, kind="autoregressive"), padded(random_sources([4]))
    one, both = (reranker(model).candidate_scores(source, [[(7, 9, 8)]], ways) for ways in (False, True))
    assert one == both


def reranked(
    by: Reranker, sources: list[list[int]], made: list[Hypothesis[int]], options: DecodingOptions
) -> list[Hypothesis[int]]:
    return list(by.rerank_all(sources, dict(enumerate(made)), options, DecodeRequest()).values())


@pytest.mark.parametrize("kind", ["autoregressive", "disco"])
@pytest.mark.parametrize("effort", ["normal", "high"])
def test_reranking_takes_the_candidate_of_the_best_score(make_model: Make, kind: str, effort: str) -> None:
    maker, other = make_model(0), make_model(5, kind=kind)
    sources = random_sources([5, 9, 3, 7, 6])
    source = padded(sources)
    options = DecodingOptions("easy-first", effort, iterations=4, length_beam=5, length_weight=0.3)
    made = decode(maker, source, options)
    assert all(len(hypothesis.candidates) == (15 if effort == "high" else 5) for hypothesis in made)
    chosen = reranked(reranker(other), sources, made, options)
    for b, (before, after) in enumerate(zip(made, chosen, strict=True)):
        one_by_one = [
            reranker(other).candidate_scores(padded([sources[b]]), [[words]], effort == "high")[0][0]
            for words in before.candidates
        ]
        scores = [score.mean(0.3) for score in one_by_one]
        assert after.score == pytest.approx(max(scores), abs=1e-10)
        best = scores.index(max(scores))
        assert after.tokens == before.candidates[best]
        assert after.probabilities == pytest.approx(
            torch.tensor(one_by_one[best].words, dtype=torch.double).exp().tolist(), abs=1e-10
        )
        assert after.steps == before.steps + 1
    assert any(before.tokens != after.tokens for before, after in zip(made, chosen, strict=True))


def test_the_length_weight_needs_no_second_scoring(make_model: Make) -> None:
    model, sources = make_model(0), random_sources([5, 9, 3, 7, 6])
    options = DecodingOptions("easy-first", iterations=2, length_beam=8)
    made = decode(model, padded(sources), options)
    scored = reranker(model).scored(padded(sources), made, options)
    chosen = [[best_candidate(each, weight).tokens for each in scored] for weight in (0.0, 100.0)]
    assert chosen[0] == [each.tokens for each in reranked(reranker(model), sources, made, options)]
    assert chosen[0] != chosen[1]


def test_candidates_that_an_engine_has_scored_are_not_scored_again(make_model: Make) -> None:
    def never(*asked: object) -> Any:
        raise AssertionError("scored again")

    model, sources = make_model(0), random_sources([5, 9])
    options = DecodingOptions("easy-first", iterations=2, length_beam=3)
    scored = reranker(model).scored(padded(sources), decode(model, padded(sources), options), options)
    assert reranked(Reranker(model, never), sources, scored, options) == [
        best_candidate(each, 0.0) for each in scored
    ]


def test_of_equal_scores_the_likelier_length_wins() -> None:
    equal = CandidateScore((-1.0, -3.0), -9.0, predicts_end=False), CandidateScore((-2.0,), -1.0, False)
    hypothesis = Hypothesis((7,), (0.5,), -0.7, 4, candidates=((7, 8), (7,)), candidate_scores=equal)
    assert best_candidate(hypothesis, 0.0).tokens == (7, 8)
    assert best_candidate(hypothesis, 1.0).tokens == (7,)


def test_too_long_candidates_are_named(make_model: Make) -> None:
    with pytest.raises(UserError, match="40 words, but the reranking model takes at most 22"):
        scores_of(make_model(0), padded(random_sources([3])), [[(7,) * 40]], 0.0)


def test_a_model_that_cannot_score_targets_is_no_reranker(make_model: Make) -> None:
    assert reranker_of(make_model(0, kind="cmlm")) is None


def test_a_foreign_vocabulary_is_named() -> None:
    side = {"language": "en", "sha256": "abc"}
    text = {"source": side, "target": {"language": "de", "sha256": "def"}}
    check_same_vocabulary(text, {**text, "joint": True})
    with pytest.raises(UserError, match=r"target tokenizer .* is def in one and 123 in the other"):
        check_same_vocabulary(text, {**text, "target": {"language": "de", "sha256": "123"}})
    with pytest.raises(UserError, match="source language is en in one and de in the other"):
        check_same_vocabulary(text, {**text, "source": {**side, "language": "de"}})
