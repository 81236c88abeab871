"""Pinned words: in every pass of every candidate, observed by all others, and never part of a longer word."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import EOS, MASK, NUM_SPECIAL
from disco_mt.decoding.length_beam import Candidates, length_candidates
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import CandidatePass, Pass
from disco_mt.nn.base import ParallelModel, TranslationModel
from disco_mt.pins.pinned import MOST_UNPLACED, Neighbours, TokenPin, pin_problem, shortest
from disco_mt.pins.place import Pinned, best_places, lengths_for
from disco_mt.pins.score import DRAFT_PASSES, draft, fit
from disco_mt.systems import SYSTEMS, check_pinnable, decode
from disco_mt.systems.build import build_model, reranker_of
from tiny import VOCABULARY, lively, padded, random_options, random_sources, tiny_config

ANYTHING = Neighbours(torch.ones(VOCABULARY, dtype=torch.bool), torch.ones(VOCABULARY, dtype=torch.bool))
LONGEST = 12  # words that the models of these tests can write
Pins = tuple[TokenPin, ...]
DECODERS: dict[str, tuple[str, DecodingOptions]] = {
    "disco, easy-first": ("disco", DecodingOptions("easy-first")),
    "disco, left-to-right": ("disco", DecodingOptions("left-to-right")),
    "disco, mask-predict": ("disco", DecodingOptions("mask-predict")),
    "disco, high effort": ("disco", DecodingOptions("easy-first", "high")),
    "cmlm, mask-predict": ("cmlm", DecodingOptions("mask-predict")),
}
TOKENS = st.lists(st.integers(NUM_SPECIAL, VOCABULARY - 1), min_size=1, max_size=3).map(tuple)
PINS = st.lists(st.builds(TokenPin, TOKENS, st.none() | st.integers(0, LONGEST - 1)), max_size=3).map(tuple)
FEASIBLE = PINS.filter(
    lambda pins: not pin_problem(pins, LONGEST - 4, VOCABULARY)
)  # of five lengths, at least
SOME = FEASIBLE.filter(bool)


def model_of(kind: str, seed: int) -> TranslationModel:
    """A model with random options; the first few have the defaults."""
    options = random_options(random.Random(seed), kind) if seed > 9 else {}
    return lively(build_model(tiny_config(kind=kind, length_classes=LONGEST + 2, **options), seed), seed)


def pinned(*sentences: Pins, neighbours: Neighbours = ANYTHING) -> Pinned:
    return Pinned(tuple(sentences), neighbours)


def request(*sentences: Pins, neighbours: Neighbours = ANYTHING) -> DecodeRequest:
    """Pins of each sentence of a batch, and a trace."""
    return DecodeRequest(pinned(*sentences, neighbours=neighbours), trace=True)


def options_of(name: str, iterations: int, length_beam: int) -> tuple[str, DecodingOptions]:
    """The kind of model that a decoder is for, and how to decode with it."""
    kind, options = DECODERS[name]
    return kind, replace(options, iterations=iterations, length_beam=length_beam)


def easy_first(iterations: int, length_beam: int) -> DecodingOptions:
    return DecodingOptions("easy-first", iterations=iterations, length_beam=length_beam)


def holds(now: CandidatePass[int], pins: Pins) -> bool:
    """Does the pass have exactly these pins, at their positions if they have one?"""
    marks = now.pinned or (False,) * len(now.tokens)
    if sum(marks) != sum(len(pin.tokens) for pin in pins):
        return False
    fixed = all(now.tokens[pin.at : pin.end] == pin.tokens for pin in pins if pin.at is not None)
    return fixed and all(_somewhere(now, pin, marks) for pin in pins if pin.at is None)


def _somewhere(now: CandidatePass[int], pin: TokenPin, marks: Sequence[bool]) -> bool:
    size = len(pin.tokens)
    starts = range(len(now.tokens) - size + 1)
    return any(now.tokens[n : n + size] == pin.tokens and all(marks[n : n + size]) for n in starts)


@pytest.mark.parametrize("name", DECODERS)
@given(st.integers(0, 10_000), st.integers(1, 6), SOME, st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_pins_stand_in_every_pass_and_all_others_observe_them(
    name: str, seed: int, length: int, pins: Pins, iterations: int
) -> None:
    kind, options = options_of(name, iterations, 4)
    source = padded(random_sources([length], seed))
    (found,) = decode(model_of(kind, seed), source, options, request(pins))
    assert found.trace is not None
    candidates = 12 if options.effort == "high" else 4
    assert len(found.trace.lengths) == candidates
    for k in range(candidates):
        first = found.trace.passes[0][k].pinned
        for passes in found.trace.passes:
            now = passes[k]
            assert holds(now, pins)
            assert now.pinned == first  # a place that was found is kept
            places = {n for n, mark in enumerate(now.pinned) if mark}
            assert all(now.probabilities[n] == 1 and not now.predicted[n] for n in places)
            assert all(
                not now.observed[n] if n in places else places <= set(now.observed[n])
                for n in range(len(first))
            )
    last = found.trace.passes[-1][found.trace.winners[-1]]
    assert (found.tokens, found.pinned, found.score) == (last.tokens, last.pinned, last.score)
    widths = {len(pin.tokens) for pin in pins if pin.at is None}
    placing = min(1, len(widths)) if kind == "cmlm" else (DRAFT_PASSES + len(widths) if widths else 0)
    assert found.steps == len(found.trace.passes) + placing


@pytest.mark.parametrize("name", DECODERS)
@given(st.integers(0, 10_000), st.lists(st.tuples(st.integers(1, 7), FEASIBLE), min_size=2, max_size=4))
@settings(max_examples=15, deadline=None)
def test_a_sentence_with_pins_does_not_depend_on_its_batch(
    name: str, seed: int, drawn: list[tuple[int, Pins]]
) -> None:
    kind, options = options_of(name, 4, 3)
    model = model_of(kind, seed)
    sources, pins = random_sources([length for length, _ in drawn], seed), [each for _, each in drawn]
    together = decode(model, padded(sources, 2), options, request(*pins))
    for source, own, found in zip(sources, pins, together, strict=True):
        (alone,) = decode(model, padded([source]), options, request(own))
        assert (alone.tokens, alone.steps, alone.pinned) == (found.tokens, found.steps, found.pinned)
        assert alone.score == pytest.approx(found.score, abs=1e-10)


@pytest.mark.parametrize("name", DECODERS)
def test_without_a_pin_nothing_changes(name: str) -> None:
    kind, options = options_of(name, 4, 3)
    model, source = model_of(kind, 3), padded(random_sources([3, 6, 2], 3))
    plain = decode(model, source, options, DecodeRequest(trace=True))
    assert decode(model, source, options, request((), (), ())) == plain
    assert all(found.pinned == found.candidate_pins == () for found in plain)
    # ... and a neighbour with pins does not mark the others
    other = decode(model, source, options, request((), (TokenPin((7,), 1),), ()))
    assert [found.pinned for found in other if not any(found.pinned)] == [(), ()]
    assert other[0].tokens == plain[0].tokens


def log_probs_at(
    model: TranslationModel, source: list[int], tokens: list[int], observed: set[int], n: int
) -> torch.Tensor:
    """log P of every word at a position, with its own forward pass over the observed words alone."""
    length = len(tokens)
    visible = torch.zeros(1, length + 1, length + 1, dtype=torch.bool)
    visible[0, :, length] = True
    visible[0, n, sorted(observed)] = True
    target = torch.tensor([[t if i in observed else MASK for i, t in enumerate(tokens)] + [EOS]])
    hidden = model.decode(target, visible, model.encode(padded([source])))
    return model.logits(hidden[0, n]).log_softmax(0)


def predicted(
    model: TranslationModel, source: list[int], tokens: list[int], observed: set[int], n: int
) -> tuple[int, float]:
    """The most likely word, and its log probability."""
    log_probs = log_probs_at(model, source, tokens, observed, n)
    best = int(log_probs[NUM_SPECIAL:].argmax()) + NUM_SPECIAL
    return best, float(log_probs[best])


def given_rest(model: TranslationModel, source: list[int], tokens: list[int], n: int) -> float:
    """log P of a word given all others."""
    return float(log_probs_at(model, source, tokens, {*range(len(tokens))} - {n}, n)[tokens[n]])


@given(
    st.integers(0, 10_000),
    st.integers(1, 6),
    SOME.filter(lambda pins: all(pin.at is not None for pin in pins)),
)
@settings(max_examples=25, deadline=None)
def test_easy_first_fills_in_around_the_pins_one_word_after_the_other(
    seed: int, length: int, pins: Pins
) -> None:
    """The fixed point: pins first, then in the order of confidence in a first pass that sees the pins."""
    model = model_of("disco", seed)
    (source,) = random_sources([length], seed)
    with torch.inference_mode():
        (found,) = decode(model, padded([source]), easy_first(30, 1), request(pins))
        tokens, fixed = [MASK] * len(found.tokens), set()
        for pin in pins:
            tokens[pin.at : pin.end] = pin.tokens
            fixed |= set(range(pin.at or 0, pin.end))
        free = [n for n in range(len(tokens)) if n not in fixed]
        first = {n: predicted(model, source, tokens, fixed, n)[1] for n in free}
        log_probs = []
        for n in sorted(free, key=lambda n: (-first[n], n)):
            seen = {m for m in range(len(tokens)) if tokens[m] != MASK}
            tokens[n], log_prob = predicted(model, source, tokens, seen, n)
            log_probs.append(log_prob)
        worth = sum(given_rest(model, source, tokens, n) for n in fixed)  # of the pins, in what came out
    assert list(found.tokens) == tokens
    expected = sum(log_probs) / max(1, len(free)) + worth / len(tokens)
    assert found.score == pytest.approx(expected, abs=1e-9)


@torch.inference_mode()
def candidates_of(model: ParallelModel, pins: Pins, length_penalty: float = 1.0) -> Candidates:
    """Candidates at four lengths with the pins at their positions."""
    options = DecodingOptions(length_beam=4, length_penalty=length_penalty)
    return pinned(pins).candidates(model, model.encode(padded(random_sources([4], 1))), options)


def test_a_surprising_pin_does_not_favour_long_candidates() -> None:
    """Equal words at every length: the pin costs the same in all, not less in longer ones."""
    candidates = candidates_of(model_of("disco", 1), (TokenPin((7,), 0),))
    assert candidates.pins is not None
    log_probs = torch.where(candidates.pins.where, -9.0, -0.1).double()
    scores = candidates.scores(log_probs)
    assert torch.allclose(scores, scores[:, :1].expand_as(scores))


def test_a_length_penalty_weighs_pins_as_it_weighs_words() -> None:
    penalty = 2.4
    candidates = candidates_of(model_of("disco", 1), (TokenPin((7,), 0),), penalty)
    assert candidates.pins is not None
    log_probs = torch.where(candidates.pins.where, -9.0, -0.1).double()
    lengths = candidates.lengths[0].tolist()
    expected = [
        -0.1 * (length - 1) / max(1, length - 1) ** penalty - 9.0 / lengths[0] ** penalty
        for length in lengths
    ]
    assert candidates.scores(log_probs)[0].tolist() == pytest.approx(expected)


@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(NUM_SPECIAL, VOCABULARY - 1))
@settings(max_examples=10, deadline=None)
def test_a_place_is_judged_by_the_words_around_it(seed: int, width: int, token: int) -> None:
    """The gain over the draft's own word, given all words that the pin would not replace."""
    model = model_of("disco", seed)
    (source,) = random_sources([4], seed)
    with torch.inference_mode():
        candidates = length_candidates(model, model.encode(padded([source])), 3)
        drafted = draft(model, candidates)
        found = fit(model, candidates, torch.tensor([[token]]), torch.tensor([[width]]))
        for row, length in enumerate(candidates.lengths[0].tolist()):
            tokens = drafted[row, :length].tolist()
            for n in range(length):
                seen = {m for m in range(length) if abs(m - n) >= width}
                log_probs = log_probs_at(model, source, tokens, seen, n)
                assert float(found[row, n, 0]) == pytest.approx(
                    float(log_probs[token] - log_probs[tokens[n]]), abs=1e-9
                )


def test_mask_predict_counts_the_words_that_are_not_pinned() -> None:
    pins = (TokenPin((7, 8), 1), TokenPin((9,)))
    options = DecodingOptions("mask-predict", iterations=4, length_beam=3)
    (found,) = decode(model_of("disco", 4), padded(random_sources([5])), options, request(pins))
    assert found.trace is not None
    for t, passes in enumerate(found.trace.passes, start=1):
        for now in passes:
            free = len(now.tokens) - 3
            assert sum(now.predicted) == max(min(1, free), free * (4 - t + 1) // 4)


@pytest.mark.parametrize("name", DECODERS)
def test_what_the_model_would_have_written_may_be_pinned_as_a_whole(name: str) -> None:
    kind, options = options_of(name, 4, 1)
    for seed in range(5):
        model, source = model_of(kind, seed), padded(random_sources([4], seed))
        (plain,) = decode(model, source, options)
        (again,) = decode(model, source, options, request((TokenPin(plain.tokens, 0),)))
        assert again.tokens == plain.tokens
        assert (set(again.probabilities), all(again.pinned)) == ({1.0}, True)


@given(st.integers(0, 10_000), SOME)
@settings(max_examples=50, deadline=None)
def test_lengths_are_the_likeliest_that_hold_the_pins_and_leave_something_to_say(
    seed: int, pins: Pins
) -> None:
    log_probs = torch.randn(1, LONGEST + 2, generator=torch.Generator().manual_seed(seed)).log_softmax(1)
    lengths, chosen = lengths_for(pinned(pins), log_probs, 4, LONGEST)
    assert torch.equal(chosen[0], log_probs[0, lengths[0] + 1])
    possible = sorted(range(shortest(pins), LONGEST + 1), key=lambda words: -float(log_probs[0, words + 1]))
    filled = sum(len(pin.tokens) for pin in pins)
    if filled != possible[0]:
        possible = [words for words in possible if words != filled]
    assert lengths[0].tolist() == possible[:4]


def test_pins_that_leave_few_lengths_are_translated_with_those() -> None:
    model, source = model_of("disco", 1), padded(random_sources([4]))
    late = (TokenPin((7,), LONGEST - 2),)
    (found,) = decode(model, source, easy_first(3, 5), request(late))
    assert found.trace is not None
    assert sorted(found.trace.lengths) == [LONGEST - 1, LONGEST]
    # engine/reference.py decodes such sentences separately
    with pytest.raises(ValueError, match="the same number of lengths"):
        decode(model, source.repeat(2, 1), easy_first(3, 5), request(late, ()))


@given(
    st.lists(st.integers(1, 3), max_size=3),
    st.lists(st.booleans(), min_size=1, max_size=7),
    st.integers(0, 99),
)
def test_places_are_the_best_of_all(widths: list[int], free: list[bool], seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    gains = [torch.randn(len(free), generator=draw).tolist() for _ in widths]
    ways = {}
    for starts in itertools.product(range(len(free)), repeat=len(widths)):
        filled = [n for start, width in zip(starts, widths, strict=True) for n in range(start, start + width)]
        if len(set(filled)) == len(filled) and all(n < len(free) and free[n] for n in filled):
            ways[starts] = sum(gain[start] for gain, start in zip(gains, starts, strict=True))
    if ways:
        found = best_places(gains, widths, free)
        assert tuple(found[i] for i in range(len(widths))) == max(ways, key=ways.__getitem__)


@given(PINS.filter(lambda pins: not pin_problem(pins, 40, VOCABULARY)))
@settings(max_examples=200)
def test_shortest_is_the_first_length_with_room_for_all(pins: Pins) -> None:
    taken = {n for pin in pins if pin.at is not None for n in range(pin.at, pin.end)}
    widths = [len(pin.tokens) for pin in pins if pin.at is None]

    def fits(length: int) -> bool:
        starts = itertools.product(range(length), repeat=len(widths))
        sets = ([n for s, w in zip(each, widths, strict=True) for n in range(s, s + w)] for each in starts)
        room = any(
            len({*filled}) == len(filled) and not {*filled} & taken and max(filled, default=0) < length
            for filled in sets
        )
        return room and all(pin.end <= length for pin in pins)

    assert fits(shortest(pins))
    assert shortest(pins) == 1 or not fits(shortest(pins) - 1)


@pytest.mark.parametrize("name", DECODERS)
@given(st.integers(0, 10_000), SOME)
@settings(max_examples=20, deadline=None)
def test_neighbours_do_not_make_a_pinned_word_longer(name: str, seed: int, pins: Pins) -> None:
    kind, options = options_of(name, 3, 3)
    draw = torch.Generator().manual_seed(seed)
    before, after = (torch.rand(VOCABULARY, generator=draw) < 0.3 for _ in range(2))
    before[VOCABULARY - 1] = after[VOCABULARY - 1] = True
    source = padded(random_sources([4], seed))
    with_neighbours = request(pins, neighbours=Neighbours(before, after))
    (found,) = decode(model_of(kind, seed), source, options, with_neighbours)
    assert found.trace is not None
    for now in itertools.chain.from_iterable(found.trace.passes):
        for n, (this, following) in enumerate(itertools.pairwise(now.pinned)):
            assert not this or following or after[now.tokens[n + 1]]
            assert this or not following or before[now.tokens[n]]


def test_a_pin_that_is_no_whole_word_may_be_continued() -> None:
    nothing = torch.zeros(VOCABULARY, dtype=torch.bool)
    nothing[6] = True
    model, source = model_of("disco", 2), padded(random_sources([4]))
    neighbours = Neighbours(ANYTHING.before, nothing)
    followers = {}
    for closed in (True, False):
        pins = (TokenPin((7,), 1, closed),)
        (found,) = decode(model, source, easy_first(3, 1), request(pins, neighbours=neighbours))
        (free,) = decode(model, source, easy_first(3, 1), request(pins))
        followers[closed] = found.tokens[2], free.tokens[2]
    assert followers[True][0] == 6 != followers[True][1]
    assert followers[False][0] == followers[False][1]


@pytest.mark.parametrize(
    ("pins", "why"),
    [
        ((TokenPin((), 1),), "at least one token"),
        ((TokenPin((EOS,), 1),), "only words of the vocabulary"),
        ((TokenPin((VOCABULARY,), 1),), "only words of the vocabulary"),
        ((TokenPin((7,), -1),), "at -1 does not fit"),
        ((TokenPin((7, 8), 11),), "2 tokens at 11 does not fit: the model writes at most 12"),
        ((TokenPin((7,), 10**12),), "does not fit"),
        ((TokenPin((7, 8), 3), TokenPin((9,), 4)), "overlap: one fills tokens 3 to 4, one begins at 4"),
        ((TokenPin((7,), 3), TokenPin((7,), 3)), "overlap"),
        ((TokenPin((7,) * 13),), "need 13 tokens"),
        ((TokenPin((7, 7)), TokenPin((8,), 1), TokenPin((8,) * 9, 3)), "need 14 tokens"),
        ((TokenPin((7,)),) * (MOST_UNPLACED + 1), f"at most {MOST_UNPLACED} pins may be without a place"),
    ],
)
def test_what_cannot_be_is_told_why(pins: Pins, why: str) -> None:
    assert why in pin_problem(pins, LONGEST, VOCABULARY)
    assert not pin_problem((TokenPin((7,) * LONGEST, 0),), LONGEST, VOCABULARY)


def test_strategies_that_refine_take_pins() -> None:
    source = padded(random_sources([4]))
    for kind, system in SYSTEMS.items():
        for name, decoder in system.decoders.items():
            options = DecodingOptions(name, iterations=2, length_beam=2, beam=2)
            pins = DecodeRequest(pinned((TokenPin((7,), 0),)))
            refines = name not in ("autoregressive", "beam", "greedy")
            assert decoder.pins == refines
            if refines:
                assert decode(model_of(kind, 1), source, options, pins)[0].tokens[0] == 7
            else:
                with pytest.raises(UserError, match=f"cannot be pinned with strategy '{name}'"):
                    decode(model_of(kind, 1), source, options, pins)


def test_a_refusal_to_pin_lists_what_can_be_pinned() -> None:
    with pytest.raises(
        UserError, match=r"strategy 'beam' of a model of kind autoregressive; pins work with"
    ) as told:
        check_pinnable("autoregressive", "")
    able = str(told.value).rpartition("pins work with ")[2].split(", ")
    assert able == [
        *("easy-first of disco models", "mask-predict of disco models", "left-to-right of disco models"),
        *("right-to-left of disco models", "all-but-itself of disco models", "mask-predict of cmlm models"),
    ]


@pytest.mark.parametrize("name", ["easy-first", "mask-predict", "left-to-right"])
def test_every_pass_is_told_as_it_happens(name: str) -> None:
    model, source, seen = model_of("disco", 5), padded(random_sources([4, 2])), list[Pass[int]]()
    options = DecodingOptions(name, iterations=4, length_beam=3)
    found = decode(model, source, options, DecodeRequest(trace=True, on_pass=seen.append))
    assert decode(model, source, options, DecodeRequest(on_pass=lambda now: None)) == [
        replace(each, trace=None) for each in found
    ]
    assert {now.strategy for now in seen} == {name}
    for b, each in enumerate(found):
        own = [now for now in seen if now.sentence == b]
        assert [now.step for now in own] == list(range(1, each.steps + 1))
        assert each.trace is not None
        assert tuple(now.candidates for now in own) == each.trace.passes
        assert tuple(now.winner for now in own) == each.trace.winners
        assert {now.lengths for now in own} == {each.trace.lengths}


def test_a_watcher_that_raises_ends_the_decoding() -> None:
    def watch(now: Pass[int]) -> None:
        if now.step == 2:
            raise ConnectionResetError

    options = DecodingOptions("mask-predict", iterations=9, length_beam=2)
    with pytest.raises(ConnectionResetError):
        decode(model_of("disco", 5), padded(random_sources([4])), options, DecodeRequest(on_pass=watch))


def test_a_reranker_keeps_the_pins() -> None:
    model, sources, options = model_of("disco", 6), random_sources([4]), easy_first(3, 5)
    (hypothesis,) = decode(model, padded(sources), options, request((TokenPin((7,), 1), TokenPin((9,)))))
    for seed in range(4):
        reranker = reranker_of(model_of("disco", seed))
        assert reranker is not None
        found = reranker.rerank_all(sources, {0: hypothesis}, options, DecodeRequest())[0]
        assert len(found.pinned) == len(found.tokens)
        assert sorted(token for token, mark in zip(found.tokens, found.pinned, strict=True) if mark) == [7, 9]
        assert all(
            mark == (probability == 1)
            for mark, probability in zip(found.pinned, found.probabilities, strict=True)
        )
