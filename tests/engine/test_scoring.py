"""The engine scores its own candidates: the scores of decoding/reranking.py, without encoding again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_incremental import HOW, MODELS, in_order, model_of, plain, same

from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.engine.incremental import IncrementalEngine
from disco_mt.engine.select import EngineOptions
from disco_mt.engine.shortlist import Shortlist
from disco_mt.engine.split import SplitRuntime
from disco_mt.engine.torch_runtime import TorchRuntime
from disco_mt.systems.build import reranker_of
from disco_mt.translator import Translator
from tiny import VOCABULARY, padded, random_sources

SCORING = DecodeRequest(score_candidates=True, batch_tokens=100)


@given(
    st.integers(0, 10**6),
    st.sampled_from(HOW),
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from([1, 15, 1000]),
)
@settings(max_examples=300, deadline=None)
def test_scores_are_those_of_the_reranker(
    seed: int, how: tuple[str, str], lengths: list[int], iterations: int, beam: int, batch_tokens: int
) -> None:
    model, sources = model_of(seed % MODELS), random_sources(lengths, seed)
    options = DecodingOptions(*how, iterations, beam)
    request = DecodeRequest(score_candidates=True, batch_tokens=batch_tokens)
    found = in_order(list(IncrementalEngine(TorchRuntime(model)).finished(sources, options, request)))
    expected = plain(model, sources, options)
    reranker = reranker_of(model)
    assert reranker is not None
    for ours, theirs in zip(found, reranker.scored(padded(sources), expected, options), strict=True):
        same(ours, theirs)
        assert len(ours.candidate_scores) == len(theirs.candidate_scores) == len(ours.candidates)
        for one, other in zip(ours.candidate_scores, theirs.candidate_scores, strict=True):
            assert one.words == pytest.approx(other.words, abs=1e-10)
            assert one.end == pytest.approx(other.end, abs=1e-10)
            assert one.predicts_end == other.predicts_end


def test_threads_score_their_shares() -> None:
    model, sources = model_of(3), random_sources([7, 3, 9], 3)
    one, two = TorchRuntime(model), SplitRuntime(TorchRuntime(model), 2)
    high = DecodingOptions(effort="high")
    results = [
        in_order(list(IncrementalEngine(runtime).finished(sources, high, SCORING))) for runtime in (one, two)
    ]
    for ours, theirs in zip(*results, strict=True):
        for first, second in zip(ours.candidate_scores, theirs.candidate_scores, strict=True):
            assert first.words == pytest.approx(second.words, abs=1e-10)


def test_nothing_is_scored_unless_asked_for_or_with_a_shortlist() -> None:
    import torch

    model, sources = model_of(3), random_sources([7, 3], 3)
    every = Shortlist(torch.full((VOCABULARY, 1), -1), torch.arange(5, VOCABULARY))
    exact = IncrementalEngine(TorchRuntime(model))
    listed = IncrementalEngine(TorchRuntime(model), shortlist=every)
    options = DecodingOptions()
    for engine, request in ((exact, DecodeRequest()), (listed, SCORING)):
        assert not any(found.candidate_scores for _, found in engine.decode(sources, options, request))
    assert all(found.candidate_scores for _, found in exact.decode(sources, options, SCORING))


@pytest.mark.parametrize("effort", ["fast", "normal", "high"])
def test_the_shipped_model_reranks_as_the_plain_algorithms_do(effort: str) -> None:
    texts = ["How long have you lived here?", "We had to wait in the rain for an hour.", "Thanks!", ""]
    plain, engine = (
        Translator.from_pretrained("en-de", EngineOptions(engine=name, threads=1), "self")
        for name in ("reference", "incremental")
    )
    for batch_tokens in (1, 500):
        request = DecodeRequest(batch_tokens=batch_tokens)
        ours, theirs = (
            each.translate(texts, DecodingOptions(effort=effort), request) for each in (engine, plain)
        )
        for one, other in zip(ours, theirs, strict=True):
            assert (one.text, one.steps) == (other.text, other.steps)
            assert one.score == pytest.approx(other.score, abs=1e-4)
