"""The engine reads its own candidates: the same readings as decoding/reranking.py, without encoding again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_easy_first_engine import MODELS, SIDE_BY_SIDE, in_order, model_of, plain, same

from disco_mt.decoding.options import DecodingOptions
from disco_mt.decoding.reranking import read_candidates, reading_ways
from disco_mt.engine.incremental import IncrementalEngine
from disco_mt.engine.pruning import Pruning
from disco_mt.engine.select import Incremental
from disco_mt.engine.split import SplitRuntime
from disco_mt.engine.torch_runtime import TorchRuntime
from disco_mt.translator import Translator
from tiny import padded, random_sources


@given(
    st.integers(0, 10**6),
    st.sampled_from(["easy-first", "easy-first", "all-but-itself", *SIDE_BY_SIDE]),
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from([1, 15, 1000]),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_readings_are_those_of_the_plain_reader(
    seed: int,
    strategy: str,
    lengths: list[int],
    iterations: int,
    beam: int,
    batch_tokens: int,
    settle_all: bool,
    both_ways: bool,
) -> None:
    model, sources = model_of(seed % MODELS), random_sources(lengths, seed)
    engine = IncrementalEngine(TorchRuntime(model))
    passes, ending = (sources, strategy, iterations, beam), (1.0, settle_all)
    found = in_order(list(engine.decode(*passes, batch_tokens, None, *ending, reading_ways(both_ways))))
    expected = plain(model, *passes, *ending)
    readings = read_candidates(
        model, padded(sources), [list(each.candidates) for each in expected], both_ways
    )
    for ours, theirs, wanted in zip(found, expected, readings, strict=True):
        same(ours, theirs)
        assert len(ours.readings) == len(wanted) == len(ours.candidates)
        for one, other in zip(ours.readings, wanted, strict=True):
            assert one.words == pytest.approx(other.words, abs=1e-10)
            assert (one.end, one.ends) == (pytest.approx(other.end, abs=1e-10), other.ends)


def test_threads_read_their_shares() -> None:
    model, sources = model_of(3), random_sources([7, 3, 9], 3)
    one, two = TorchRuntime(model), SplitRuntime(TorchRuntime(model), 2)
    results = [
        in_order(list(IncrementalEngine(each).decode(sources, batch_tokens=100, reading=reading_ways(True))))
        for each in (one, two)
    ]
    for ours, theirs in zip(*results, strict=True):
        for first, second in zip(ours.readings, theirs.readings, strict=True):
            assert first.words == pytest.approx(second.words, abs=1e-10)


def test_nothing_is_read_unless_asked_for_or_with_pruning() -> None:
    model, sources = model_of(3), random_sources([7, 3], 3)
    exact, pruned = Incremental(model, "fp32", 1), Incremental(model, "fp32", 1, Pruning(drop_behind=0.1))
    options = DecodingOptions()
    for engine, read in ((exact, False), (pruned, True)):
        assert not any(found.readings for _, found in engine.decode(sources, options, 100, read))
    assert all(found.readings for _, found in exact.decode(sources, options, 100, True))


@pytest.mark.parametrize("read", ["left-to-right", "both-ways"])
def test_the_shipped_model_ranks_as_the_plain_algorithms_do(read: str) -> None:
    texts = ["How long have you lived here?", "We had to wait in the rain for an hour.", "Thanks!", ""]
    plain, engine = (
        Translator.from_pretrained("en-de", rescore_with="self", engine=name, threads=1)
        for name in ("reference", "incremental")
    )
    for batch_tokens in (1, 500):
        ours, theirs = (
            each.translate(texts, read=read, batch_tokens=batch_tokens) for each in (engine, plain)
        )
        for one, other in zip(ours, theirs, strict=True):
            assert (one.text, one.steps) == (other.text, other.steps)
            assert one.score == pytest.approx(other.score, abs=1e-4)
