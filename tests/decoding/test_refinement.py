"""Parallel easy-first and mask-predict: against a slow loop, at the fixed point, and in any batch."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from disco_mt.systems.disco.easy_first import easy_first
from disco_mt.systems.disco.orders import by_rule
from hypothesis import given, settings
from hypothesis import strategies as st

from disco_mt.core.special_tokens import EOS, MASK, NUM_SPECIAL
from disco_mt.decoding.length_beam import best_lengths
from disco_mt.decoding.mask_predict import mask_predict
from disco_mt.decoding.results import Hypothesis
from disco_mt.nn.base import TranslationModel
from disco_mt.systems.build import build_model
from tiny import lively, padded, random_options, random_sources, tiny_config

Decoder = Callable[..., list[Hypothesis[int]]]


def model_of(seed: int, kind: str = "disco", **sizes: object) -> TranslationModel:
    """A lively model of random options."""
    options = random_options(random.Random(seed), kind)
    return lively(build_model(tiny_config(kind=kind, **sizes, **options), seed), seed)


def word(
    model: TranslationModel, source: list[int], tokens: list[int], observed: set[int], n: int
) -> tuple[int, float]:
    """One prediction with its own forward pass over the observed words alone: no batch, no mask tricks."""
    length = len(tokens)
    visible = torch.zeros(1, length + 1, length + 1, dtype=torch.bool)
    visible[0, :, length] = True
    visible[0, n, sorted(observed)] = True
    target = torch.tensor([[t if i in observed else MASK for i, t in enumerate(tokens)] + [EOS]])
    hidden = model.decode(target, visible, model.encode(padded([source])))
    log_probs = model.logits(hidden[0, n]).log_softmax(0)
    best = int(log_probs[NUM_SPECIAL:].argmax()) + NUM_SPECIAL
    return best, float(log_probs[best])


def slow_easy_first(
    model: TranslationModel, source: list[int], iterations: int, beam: int, penalty: float, settle_all: bool
) -> tuple[list[int], int, float]:
    """Algorithm 1 as it is printed, one position at a time; settle_all: it goes on for the sake of others."""
    lengths, _ = best_lengths(
        model.encode(padded([source])).length_log_probs, beam, model.config.longest_target
    )
    now, order = {}, {}
    for k, length in enumerate(lengths[0].tolist()):
        now[k] = [word(model, source, [MASK] * length, set(), n) for n in range(length)]
        order[k] = sorted(range(length), key=lambda n, k=k: (-now[k][n][1], n))

    def mean(k: int) -> float:
        return sum(p for _, p in now[k]) / len(now[k]) ** penalty

    winner = max(now, key=lambda k: (mean(k), -k))
    for step in range(2, iterations + 1):
        before, now = now, {}
        for k, words in before.items():
            tokens = [w for w, _ in words]
            rank = {n: r for r, n in enumerate(order[k])}
            now[k] = [word(model, source, tokens, {i for i in rank if rank[i] < rank[n]}, n) for n in rank]
            now[k] = [now[k][list(rank).index(n)] for n in range(len(tokens))]
        winner = max(now, key=lambda k: (mean(k), -k))
        if all(
            [w for w, _ in now[k]] == [w for w, _ in before[k]] for k in (now if settle_all else [winner])
        ):
            return [w for w, _ in now[winner]], step, mean(winner)
    return [w for w, _ in now[winner]], iterations, mean(winner)


@given(
    st.integers(0, 10_000),
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from([1.0, 1.0, 0.5, 2.4]),
    st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_easy_first_equals_the_printed_algorithm(
    seed: int, length: int, iterations: int, beam: int, penalty: float, settle_all: bool
) -> None:
    """A penalty of 1 is the printed mean."""
    model = model_of(seed, length_classes=9)
    (source,) = random_sources([length], seed)
    with torch.inference_mode():
        tokens, steps, score = slow_easy_first(model, source, iterations, beam, penalty, settle_all)
        ending = {"length_penalty": penalty, "settle_all": settle_all}
        found = easy_first(model, padded([source]), iterations, beam, **ending)[0]
    assert (list(found.tokens), found.steps) == (tokens, steps)
    assert found.score == pytest.approx(score, abs=1e-9)


def test_all_candidates_have_come_to_rest_where_that_is_asked_for() -> None:
    model, sources = lively(build_model(tiny_config(length_classes=11), 1), 1), random_sources([3, 5, 8], 1)

    def candidates(iterations: int, settle_all: bool) -> list[tuple[tuple[int, ...], ...]]:
        found = easy_first(model, padded(sources), iterations, 4, settle_all=settle_all)
        return [each.candidates for each in found]

    at_rest = candidates(12, True)
    assert at_rest == candidates(40, True)
    assert at_rest != candidates(12, False)


@given(st.integers(0, 10_000), st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_fixed_point_within_n_plus_one_passes_is_the_sequential_result(seed: int, length: int) -> None:
    """Filling in one word after the other in the easy-first order gives what easy-first converges to."""
    model = model_of(seed, length_classes=11)
    (source,) = random_sources([length], seed)
    with torch.inference_mode():
        found = easy_first(model, padded([source]), iterations=40, length_beam=1, trace=True)[0]
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
        (found,) = by_rule(model, padded([source]), "left-to-right", iterations=20, length_beam=1)
        greedy: list[int] = []
        for n in range(len(found.tokens)):
            rest = [MASK] * (len(found.tokens) - n)
            greedy.append(word(model, source, greedy + rest, set(range(n)), n)[0])
    assert list(found.tokens) == greedy
    assert found.steps <= len(greedy) + 1


@given(st.integers(0, 10_000), st.lists(st.integers(1, 9), min_size=1, max_size=3))
@settings(max_examples=25, deadline=None)
def test_orders_side_by_side_make_the_candidates_of_each(seed: int, lengths: list[int]) -> None:
    """All that settle do so where each order alone does; the winner is the likeliest of all."""
    model = model_of(seed, length_classes=11)
    source = padded(random_sources(lengths, seed))
    orders = ("easy-first", "left-to-right", "right-to-left")
    each = [by_rule(model, source, order, 20, 3, settle_all=True) for order in orders]
    together = by_rule(model, source, "+".join(orders), 20, 3, settle_all=True)
    for b, found in enumerate(together):
        alone = [hypotheses[b] for hypotheses in each]
        assert found.candidates == tuple(words for one in alone for words in one.candidates)
        assert found.score == pytest.approx(max(one.score for one in alone), abs=1e-10)
        assert found.steps == max(one.steps for one in alone)


DECODERS = {
    "easy-first": lambda model, source: easy_first(model, source, 6, 3),
    "easy-first, one pass": lambda model, source: easy_first(model, source, 1, 3),
    "mask-predict": lambda model, source: mask_predict(model, source, 4, 3),
    "left-to-right": lambda model, source: by_rule(model, source, "left-to-right", 6, 3),
    "right-to-left": lambda model, source: by_rule(model, source, "right-to-left", 6, 3),
    "all-but-itself": lambda model, source: by_rule(model, source, "all-but-itself", 6, 3),
    "two orders": lambda model, source: by_rule(model, source, "right-to-left+easy-first", 6, 3),
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
    decode = DECODERS[name]
    model = model_of(seed, kind)
    sentences = random_sources(lengths, seed)
    together = decode(model, padded(sentences, extra))
    for sentence, found in zip(sentences, together, strict=True):
        (alone,) = decode(model, padded([sentence]))
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
    found = easy_first(make_model(), padded(random_sources([4])), 1, 2, trace=True)[0]
    assert found.steps == 1
    assert found.trace.passes[0][found.trace.winners[0]].tokens == found.tokens


def test_mask_predict_masks_the_schedule_and_keeps_the_rest(
    make_model: Callable[..., TranslationModel],
) -> None:
    found = mask_predict(make_model(3), padded(random_sources([5])), 4, 3, trace=True)[0]
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
    found = easy_first(make_model(5), padded(random_sources([5])), 6, 2, trace=True)[0]
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
    for decode in (easy_first, mask_predict):
        lengths = [
            sum(len(found.tokens) for found in decode(model, sources, 3, 6, length_penalty=penalty))
            for penalty in (0.0, 1.0, 3.0)
        ]
        assert lengths[0] < lengths[1] < lengths[2]
