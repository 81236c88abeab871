"""The incremental engine against the plain algorithm: the same words, steps and scores, with less work."""

from __future__ import annotations

import copy
import random
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from disco_mt.core.special_tokens import NUM_SPECIAL, PAD
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Hypothesis
from disco_mt.engine.best_words import OutputTable, best_among, given_words
from disco_mt.engine.incremental import Finished, IncrementalEngine, Queue, Work
from disco_mt.engine.ragged import Groups
from disco_mt.engine.skipping import Driven, Recorded, Structure
from disco_mt.engine.torch_runtime import TorchRuntime
from disco_mt.nn.config import Stack
from disco_mt.systems import SYSTEMS, decode
from disco_mt.systems.build import build_model
from disco_mt.systems.disco.model import DisCo
from golden_model import FOLDERS, Golden
from tiny import lively, padded, random_options, random_sources, tiny_config

MODELS = 100


@cache
def model_of(seed: int) -> DisCo:
    """A random model of a random shape, in float64."""
    draw = random.Random(seed)
    config = tiny_config(
        width=8,
        encoder=Stack(draw.randint(1, 2), 2, 12),
        decoder=Stack(draw.randint(1, 3), draw.choice((1, 2, 4)), 12),
        length_classes=draw.randint(4, 14),
        **random_options(draw),
    )
    model = lively(build_model(config, seed), seed)
    assert isinstance(model, DisCo)
    return model


def plain(model: DisCo, sources: list[list[int]], options: DecodingOptions) -> list[Hypothesis[int]]:
    """The reference."""
    return decode(model, padded(sources), options)


def in_order(finished: list[Finished]) -> list[Hypothesis[int]]:
    found = {each.index: each.hypothesis for each in finished}
    return [found[index] for index in range(len(finished))]


def same(ours: Hypothesis[int], theirs: Hypothesis[int], within: float = 1e-10) -> None:
    assert (ours.tokens, ours.steps, ours.candidates) == (theirs.tokens, theirs.steps, theirs.candidates)
    assert ours.score == pytest.approx(theirs.score, abs=within)
    assert ours.probabilities == pytest.approx(theirs.probabilities, abs=within)


ORDERS = [name for name, decoder in SYSTEMS["disco"].decoders.items() if decoder.order is not None]
HOW = (
    [("easy-first", "normal")] * 3 + [("easy-first", "high")] * 2 + [(name, "normal") for name in ORDERS[1:]]
)
"""Strategies and efforts, the important ones more often."""


@given(
    st.integers(0, 10**6),
    st.sampled_from(HOW),
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.integers(1, 9),
    st.integers(1, 6),
    st.sampled_from([1, 15, 30, 1000]),
    st.sampled_from([1.0, 1.0, 0.0, 2.4]),
)
@settings(max_examples=1000, deadline=None)
def test_engine_equals_the_plain_algorithm(
    seed: int,
    how: tuple[str, str],
    lengths: list[int],
    iterations: int,
    beam: int,
    batch_tokens: int,
    penalty: float,
) -> None:
    model, sources = model_of(seed % MODELS), random_sources(lengths, seed)
    engine = IncrementalEngine(TorchRuntime(model))
    options = DecodingOptions(*how, iterations, beam, length_penalty=penalty)
    found = list(engine.finished(sources, options, DecodeRequest(batch_tokens=batch_tokens)))
    for ours, theirs in zip(in_order(found), plain(model, sources, options), strict=True):
        same(ours, theirs)
    assert engine.work == sum((each.work for each in found), Work())
    assert engine.work.passes == sum(each.hypothesis.steps for each in found)
    assert engine.work.rows <= engine.work.plain_rows


@pytest.fixture(scope="module", params=FOLDERS)
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """A trained model, and the authors' translations of some sentences."""
    return Golden.load(request.param, tmp_path_factory.mktemp("golden") / "model")


def test_golden_vectors_in_float32_in_any_batch(golden: Golden) -> None:
    engine = IncrementalEngine(TorchRuntime(golden.model))
    for batch_tokens in (1, 300):
        request = DecodeRequest(batch_tokens=batch_tokens)
        found = in_order(list(engine.finished(golden.sources, request=request)))
        for ours, entry in zip(found, golden.entries, strict=True):
            wanted = entry["algorithm_1_T10"]
            assert golden.tokens(ours) == wanted["tokens"]
            assert ours.steps == wanted["steps"]
            assert ours.score == pytest.approx(wanted["score"], abs=1e-4)


def test_trained_model_in_float64_and_rows_saved(golden: Golden) -> None:
    model, sources = copy.deepcopy(golden.model).double(), golden.sources[:40]
    engine = IncrementalEngine(TorchRuntime(model))
    found = in_order(list(engine.finished(sources, request=DecodeRequest(batch_tokens=200))))
    for ours, theirs in zip(found, plain(model, sources, DecodingOptions()), strict=True):
        same(ours, theirs)
    assert engine.work.rows < 0.75 * engine.work.plain_rows


def test_rows_are_skipped_by_the_rule_and_no_other() -> None:
    """Counted by hand from the trace of the plain algorithm."""
    for length in range(2, 11):
        (source,) = random_sources([length], seed=length)
        options = DecodingOptions(length_beam=3)
        (theirs,) = decode(model_of(7), padded([source]), options, DecodeRequest(trace=True))
        recorded = Recorded()
        engine = IncrementalEngine(TorchRuntime(model_of(7)), skipping=recorded)
        list(engine.finished([source], options))
        (structure,) = recorded.structures
        passes = theirs.trace.passes
        for t in range(1, len(passes)):
            for k, candidate in enumerate(passes[t]):
                before = passes[t - 1][k].tokens
                earlier = passes[t - 2][k].tokens if t > 1 else (None,) * len(before)
                moved = {n for n, word in enumerate(before) if word != earlier[n]}
                stale = tuple(n for n, seen in enumerate(candidate.observed) if moved & set(seen))
                assert structure.rows[t][k] == stale
        assert engine.work.rows == sum(len(rows) for each in structure.rows for rows in each)
        assert engine.work.plain_rows == structure.passes * sum(structure.lengths)


def test_a_driven_run_does_the_work_of_the_structure_and_no_other() -> None:
    structure = Structure.fixed((10, 9, 11), (1.0, 0.9, 0.5, 0.2))
    engine = IncrementalEngine(TorchRuntime(model_of(7)), skipping=Driven(structure))
    request = DecodeRequest(batch_tokens=50)
    found = list(engine.finished(random_sources([4, 7, 5]), DecodingOptions(length_beam=3), request))
    rows = (10 + 9 + 11) + (9 + 8 + 10) + (5 + 4 + 6) + (2 + 2 + 2)
    for each in found:
        assert (each.hypothesis.steps, each.work.rows, each.work.plain_rows) == (4, rows, 4 * 30)
        assert len(each.hypothesis.tokens) in structure.lengths


def test_a_recorded_structure_can_be_driven() -> None:
    sources = random_sources([6, 9], seed=3)
    recorder, one_by_one = Recorded(), DecodeRequest(batch_tokens=1)
    engine = IncrementalEngine(TorchRuntime(model_of(7)), skipping=recorder)
    recorded = list(engine.finished(sources, request=one_by_one))
    for each, structure in zip(recorded, recorder.structures, strict=True):
        driven = IncrementalEngine(TorchRuntime(model_of(7)), skipping=Driven(structure))
        (again,) = driven.finished([sources[0]], request=one_by_one)
        assert again.work == each.work


def test_the_next_sentence_takes_the_place_of_a_finished_one() -> None:
    queue = Queue([[5] * 9, [5] * 4, [5] * 8, [5]], batch_tokens=20)
    assert queue.next(0) == [0, 2]  # long ones first
    queue = Queue([[5] * 3] * 9, batch_tokens=16)
    assert len(queue.next(0)) == 4
    assert queue.next(4) == []  # no room
    assert len(queue.next(3)) == 1
    assert len(queue.next(0)) == 4
    assert (len(queue), queue.next(0)) == (0, [])


def test_a_long_sentence_alone_is_more_than_the_budget() -> None:
    assert Queue([[5] * 40], batch_tokens=1).next(0) == [0]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.integers(0, 100))
def test_groups_lay_rows_out_and_back(counts: list[int], seed: int) -> None:
    members = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    rows = torch.rand(len(members), 3, generator=torch.Generator().manual_seed(seed))
    groups = Groups.of(members, len(counts))
    if not len(members):
        return
    padded_rows = groups.padded(rows)
    assert torch.equal(groups.flat(padded_rows), rows)
    for group, count in enumerate(counts):
        assert torch.equal(padded_rows[group, :count], rows[members == group])


@pytest.mark.parametrize("vocabulary", [7, 1024, 1030, 3000])
@pytest.mark.parametrize("rows", [1, 128, 130])
@pytest.mark.parametrize("biased", [False, True])
def test_best_words_in_blocks(vocabulary: int, rows: int, biased: bool) -> None:
    generator = torch.Generator().manual_seed(vocabulary)
    hidden = torch.randn(rows, 6, generator=generator, dtype=torch.float64) * 30
    table = torch.randn(vocabulary, 6, generator=generator, dtype=torch.float64)
    bias = torch.randn(vocabulary, generator=generator, dtype=torch.float64) * 30 if biased else None
    found = OutputTable(table.T, bias).best(hidden)
    logits = hidden @ table.T if bias is None else hidden @ table.T + bias
    logs = logits.log_softmax(dim=1)
    best, ids = logs[:, NUM_SPECIAL:].max(dim=1)
    assert torch.equal(found.ids, ids + NUM_SPECIAL)
    assert torch.allclose(found.log_probs, best, atol=1e-12, rtol=0)
    few = torch.arange(NUM_SPECIAL, vocabulary, 2)
    among = best_among(hidden, table, few, bias)
    assert torch.equal(among.ids, few[logits[:, few].argmax(dim=1)])
    assert torch.allclose(given_words(hidden, table, found.ids, bias), best, atol=1e-12, rtol=0)


def test_padding_of_the_source_changes_nothing() -> None:
    runtime, sources = TorchRuntime(model_of(7)), random_sources([3, 8])
    both, alone = runtime.encode(padded(sources)), runtime.encode(padded(sources[:1]))
    assert (padded(sources)[0] == PAD).any()
    assert torch.allclose(both.keys[:, 0, :, :4], alone.keys[:, 0])
    assert torch.allclose(both.length_log_probs[0], alone.length_log_probs[0])
