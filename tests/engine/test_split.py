"""Rows divided among threads: the same words, steps and scores as with one thread."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.engine.incremental import IncrementalEngine
from disco_mt.engine.split import SplitRuntime
from disco_mt.engine.torch_runtime import TorchRuntime
from disco_mt.systems.build import build_model
from disco_mt.systems.disco.model import DisCo
from tiny import MARIAN, lively, random_sources, tiny_config


def float64_runtime(seed: int, **options: object) -> TorchRuntime:
    model = lively(build_model(tiny_config(**options), seed), seed)
    assert isinstance(model, DisCo)
    return TorchRuntime(model)


RUNTIMES = [*(float64_runtime(seed) for seed in range(3)), float64_runtime(3, **MARIAN)]


@given(
    st.integers(0, 10**6),
    st.lists(st.integers(0, 9), min_size=1, max_size=5),
    st.integers(1, 5),
    st.sampled_from([1, 30, 1000]),
    st.integers(2, 5),
)
@settings(max_examples=60, deadline=None)
def test_threads_change_nothing(
    seed: int, lengths: list[int], beam: int, batch_tokens: int, threads: int
) -> None:
    inner, sources = RUNTIMES[seed % len(RUNTIMES)], random_sources(lengths, seed)
    split = SplitRuntime(inner, threads)
    options = DecodingOptions(iterations=8, length_beam=beam)
    found, wanted = (
        sorted(
            IncrementalEngine(runtime).finished(sources, options, DecodeRequest(batch_tokens=batch_tokens)),
            key=lambda each: each.index,
        )
        for runtime in (split, inner)
    )
    split.pool.shutdown()
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours.work, ours.hypothesis.tokens) == (theirs.work, theirs.hypothesis.tokens)
        assert ours.hypothesis.candidates == theirs.hypothesis.candidates
        assert ours.hypothesis.score == pytest.approx(theirs.hypothesis.score, abs=1e-10)


def test_an_error_in_a_thread_is_told() -> None:
    class Broken(TorchRuntime):
        def later_pass(self, *given: object) -> object:  # type: ignore[override]
            raise MemoryError("no room")

    runtime = RUNTIMES[0]
    broken = Broken.__new__(Broken)
    broken.__dict__ = runtime.__dict__
    with pytest.raises(MemoryError, match="no room"):
        list(IncrementalEngine(SplitRuntime(broken, 2)).finished(random_sources([8])))
