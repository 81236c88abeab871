"""Parallel easy-first and mask-predict: against a slow loop, at the fixed point, and in any batch."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from disco_mt.core.special_tokens import EOS, MASK, NUM_SPECIAL
from disco_mt.decoding.length_beam import best_lengths
from disco_mt.decoding.mask_predict import mask_predict
from disco_mt.decoding.options import HIGH_ORDERS, DecodeRequest, DecodingOptions, Effort
from disco_mt.decoding.refinement import refine
from disco_mt.decoding.results import Hypothesis
from disco_mt.nn.base import TranslationModel
from disco_mt.systems import decode
from disco_mt.systems.build import build_model
from disco_mt.systems.disco.decoding import ORDERS, refine_in_order
from tiny import lively, padded, random_options, random_sources, tiny_config

TRACED = DecodeRequest(trace=True)


def model_of(seed: int, kind: str = "disco", **sizes: object) -> TranslationModel:
    """A lively model of random options."""
    options = random_options(random.Random(seed), kind)
    return lively(build_model(tiny_config(kind=kind, **sizes, **options), seed), seed)


def word(
    model: TranslationModel, source: list[int], tokens: list[int], observed: set[int], n: int
) -> tuple[int, float]:
    """One prediction with its own forward pass over only the observed words: no batch, no masks."""
    length = len(tokens)
    visible = torch.zeros(1, length + 1, length + 1, dtype=torch.bool)
    visible[0, :, length] = True
    visible[0, n, sorted(observed)] = True
    target = torch.tensor([[t if i in observed else MASK for i, t in enumerate(tokens)] + [EOS]])
    hidden = model.decode(target, visible, model.encode(padded([source])))
    log_probs = model.logits(hidden[0, n]).log_softmax(0)
    best = int(log_probs[NUM_SPECIAL:].argmax()) + NUM_SPECIAL
    return best, float(log_probs[best])


def visible_positions(order: str, first: list[tuple[int, float]]) -> list[set[int]]:
    """Visibility after the first pass: the words before it in the order; in easy-first, the easier ones."""
    places = range(len(first))
    ranked = {
        "easy-first": sorted(places, key=lambda n: (-first[n][1], n)),
        "left-to-right": list(places),
        "right-to-left": list(reversed(places)),
    }[order]
    return [set(ranked[: ranked.index(n)]) for n in places]


def slow_refinement(
    model: TranslationModel, source: list[int], options: DecodingOptions
) -> tuple[list[int], int, float]:
    """Algorithm 1 as it is printed, one position at a time. High effort: three orders, until all converge."""
    lengths, _ = best_lengths(
        model.encode(padded([source])).length_log_probs, options.length_beam, model.config.longest_target
    )
    high = options.effort == "high"
    orders = ("easy-first", "left-to-right", "right-to-left") if high else ("easy-first",)
    now, seen = [], []
    for order in orders:
        for length in lengths[0].tolist():
            now.append([word(model, source, [MASK] * length, set(), n) for n in range(length)])
            seen.append(visible_positions(order, now[-1]))

    def score(k: int) -> float:
        return sum(p for _, p in now[k]) / len(now[k]) ** options.length_penalty

    winner = max(range(len(now)), key=lambda k: (score(k), -k))
    for step in range(2, options.iterations + 1):
        before, now = now, []
        for k, words in enumerate(before):
            tokens = [w for w, _ in words]
            now.append([word(model, source, tokens, seen[k][n], n) for n in range(len(tokens))])
        winner = max(range(len(now)), key=lambda k: (score(k), -k))
        asked = range(len(now)) if high else [winner]
        if all([w for w, _ in now[k]] == [w for w, _ in before[k]] for k in asked):
            return [w for w, _ in now[winner]], step, score(winner)
    return [w for w, _ in now[winner]], options.iterations, score(winner)


@given(
    st.integers(0, 10_000),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from([1.0, 1.0, 0.5, 2.4]),
    st.sampled_from(["normal", "high"]),
)
@settings(max_examples=25, deadline=None)
def test_easy_first_equals_the_printed_algorithm(
    seed: int, length: int, iterations: int, beam: int, penalty: float, effort: Effort
) -> None:
    """A penalty of 1 is the printed mean."""
    model = model_of(seed, length_classes=9)
    (source,) = random_sources([length], seed)
    options = DecodingOptions("easy-first", effort, iterations, beam, length_penalty=penalty)
    with torch.inference_mode():
        tokens, steps, score = slow_refinement(model, source, options)
        (found,) = decode(model, padded([source]), options)
    assert (list(found.tokens), found.steps) == (tokens, steps)
    assert found.score == pytest.approx(score, abs=1e-9)


def test_all_candidates_have_converged_with_high_effort() -> None:
    model, sources = lively(build_model(tiny_config(length_classes=11), 1), 1), random_sources([3, 5, 8], 1)

    def candidates(iterations: int, effort: Effort) -> list[tuple[tuple[int, ...], ...]]:
        options = DecodingOptions("easy-first", effort, iterations, length_beam=4)
        return [each.candidates for each in decode(model, padded(sources), options)]

    converged = candidates(12, "high")
    assert converged == candidates(40, "high")
    assert [each[:4] for each in converged] != candidates(12, "normal")  # the first four are easy-first


@given(st.integers(0, 10_000), st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_fixed_point_within_n_plus_one_passes_is_the_sequential_result(seed: int, length: int) -> None:
    """Predicting one word after the other in easy-first order gives the fixed point of easy-first."""
    model = model_of(seed, length_classes=11)
    (source,) = random_sources([length], seed)
    with torch.inference_mode():
        options = DecodingOptions("easy-first", iterations=40, length_beam=1)
        (found,) = decode(model, padded([source]), options, TRACED)
        size = len(found.tokens)
        assert found.steps <= size + 1
        first = found.trace.passes[0][0].probabilities
        sequential = [MASK] * size
        for n in sorted(range(size), key=lambda n: (-first[n], n)):
            seen = {m for m in range(size) if sequential[m] != MASK}
            sequential[n] = word(model, source, sequential, seen, n)[0]
    assert list(found.tokens) == sequential


@given(st.integers(0, 10_000), st.integers(1, 8))
@settings(max_examples=25, deadline=None)
def test_left_to_right_with_enough_passes_is_greedy_decoding_at_that_length(seed: int, length: int) -> None:
    model = model_of(seed, length_classes=9)
    (source,) = random_sources([length], seed)
    with torch.inference_mode():
        options = DecodingOptions("left-to-right", iterations=20, length_beam=1)
        (found,) = decode(model, padded([source]), options)
        greedy: list[int] = []
        for n in range(len(found.tokens)):
            rest = [MASK] * (len(found.tokens) - n)
            greedy.append(word(model, source, greedy + rest, set(range(n)), n)[0])
    assert list(found.tokens) == greedy
    assert found.steps <= len(greedy) + 1


@given(st.integers(0, 10_000), st.lists(st.integers(1, 9), min_size=1, max_size=3))
@settings(max_examples=25, deadline=None)
def test_high_effort_makes_the_candidates_of_each_order(seed: int, lengths: list[int]) -> None:
    """Each order converges to the same result as alone; the most likely candidate of all wins."""
    model = model_of(seed, length_classes=11)
    source = padded(random_sources(lengths, seed))
    options = DecodingOptions("easy-first", "high", iterations=20, length_beam=3)

    def alone(order: str) -> list[Hypothesis[int]]:
        """Every copy of the candidates in the same order, until all converge."""
        return refine(
            model,
            source,
            lambda log_probs, rows: ORDERS[order](log_probs, rows.words, rows.eos, None),
            options,
            DecodeRequest(),
        )

    each = [alone(order) for order in HIGH_ORDERS]
    assert HIGH_ORDERS == ("easy-first", "left-to-right", "right-to-left")
    for b, found in enumerate(decode(model, source, options)):
        its = [hypotheses[b] for hypotheses in each]
        assert all(one.candidates == one.candidates[:3] * 3 for one in its)
        assert found.candidates == tuple(words for one in its for words in one.candidates[:3])
        assert found.score == pytest.approx(max(one.score for one in its), abs=1e-10)
        assert found.steps == max(one.steps for one in its)


def test_only_high_effort_changes_a_plain_algorithm() -> None:
    """The plain algorithms only know effort high; effort fast changes the options (`DecodingDefaults`)."""
    model, source = model_of(1, length_classes=11), padded(random_sources([5, 3], 1))
    plain, fast, normal, high = (
        decode(model, source, DecodingOptions("easy-first", effort, 6, 3))
        for effort in ("", "fast", "normal", "high")
    )
    assert plain == fast == normal
    assert [len(found.candidates) for found in high] == [9, 9]


DECODERS = {
    "easy-first": DecodingOptions("easy-first", iterations=6, length_beam=3),
    "easy-first, one pass": DecodingOptions("easy-first", iterations=1, length_beam=3),
    "mask-predict": DecodingOptions("mask-predict", iterations=4, length_beam=3),
    "left-to-right": DecodingOptions("left-to-right", iterations=6, length_beam=3),
    "right-to-left": DecodingOptions("right-to-left", iterations=6, length_beam=3),
    "all-but-itself": DecodingOptions("all-but-itself", iterations=6, length_beam=3),
    "high effort": DecodingOptions("easy-first", "high", iterations=6, length_beam=3),
}


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("kind", ["disco", "cmlm"])
@given(st.integers(0, 10_000), st.lists(st.integers(1, 9), min_size=2, max_size=5), st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_a_sentence_does_not_depend_on_its_batch(
    kind: str, name: str, seed: int, lengths: list[int], extra: int
) -> None:
    if kind == "cmlm" and name != "mask-predict":
        return
    model = model_of(seed, kind)
    sentences = random_sources(lengths, seed)
    together = decode(model, padded(sentences, extra), DECODERS[name])
    for sentence, found in zip(sentences, together, strict=True):
        (alone,) = decode(model, padded([sentence]), DECODERS[name])
        assert (alone.tokens, alone.steps) == (found.tokens, found.steps)
        assert alone.score == pytest.approx(found.score, abs=1e-10)
        assert alone.probabilities == pytest.approx(found.probabilities, abs=1e-10)


def test_best_lengths_are_distinct_possible_and_ordered() -> None:
    scores = torch.tensor([[9.0, 8.0, 1.0, 3.0, 3.0, 2.0, 7.0]]).log_softmax(1)  # classes 0 and 1 cannot be
    lengths, log_probs = best_lengths(scores, beam=3, longest=4)  # class 6 is beyond the position table
    assert lengths.tolist() == [[2, 3, 4]]  # a tie: the shorter first
    assert torch.equal(log_probs[0], scores[0, [3, 4, 5]])
    assert best_lengths(scores, beam=99, longest=4)[0].shape == (1, 4)


def test_one_pass_returns_the_first_prediction(make_model: Callable[..., TranslationModel]) -> None:
    options = DecodingOptions("easy-first", iterations=1, length_beam=2)
    (found,) = refine_in_order(make_model(), padded(random_sources([4])), options, TRACED)
    assert found.steps == 1
    assert found.trace.passes[0][found.trace.winners[0]].tokens == found.tokens


def test_mask_predict_masks_the_schedule_and_keeps_the_rest(
    make_model: Callable[..., TranslationModel],
) -> None:
    options = DecodingOptions("mask-predict", iterations=4, length_beam=3)
    (found,) = mask_predict(make_model(3), padded(random_sources([5])), options, TRACED)
    assert found.steps == 4
    for k, length in enumerate(found.trace.lengths):
        for t, passes in enumerate(found.trace.passes, start=1):
            now = passes[k]
            assert sum(now.predicted) == max(1, length * (4 - t + 1) // 4)
            for n in range(length):
                kept = {m for m in range(length) if not now.predicted[m]}
                assert set(now.observed[n]) == kept
                if not now.predicted[n]:
                    earlier = found.trace.passes[t - 2][k]
                    assert (now.tokens[n], now.probabilities[n]) == (
                        earlier.tokens[n],
                        earlier.probabilities[n],
                    )


def test_trace_of_easy_first_tells_who_saw_whom(make_model: Callable[..., TranslationModel]) -> None:
    options = DecodingOptions("easy-first", iterations=6, length_beam=2)
    (found,) = refine_in_order(make_model(5), padded(random_sources([5])), options, TRACED)
    assert len(found.trace.passes) == found.steps == len(found.trace.winners)
    for k, length in enumerate(found.trace.lengths):
        assert found.trace.passes[0][k].observed == ((),) * length
        sizes = sorted(len(sight) for sight in found.trace.passes[1][k].observed)
        assert sizes == list(range(length))


def test_a_length_penalty_makes_up_for_the_liking_of_short_candidates(
    make_model: Callable[..., TranslationModel],
) -> None:
    model = make_model()
    sources = padded(random_sources([6] * 20, 1))
    for strategy in ("easy-first", "mask-predict"):
        lengths = [
            sum(
                len(found.tokens)
                for found in decode(
                    model, sources, DecodingOptions(strategy, "", 3, 6, length_penalty=penalty)
                )
            )
            for penalty in (0.0, 1.0, 3.0)
        ]
        assert lengths[0] < lengths[1] < lengths[2]
