"""int8, in our own kernels and in ONNX Runtime: close to float32, no row depends on its batch mates."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
import torch

from disco_mt.core.errors import UserError
from disco_mt.engine import select
from disco_mt.engine.incremental import IncrementalEngine
from disco_mt.engine.native import kernels
from disco_mt.engine.native_runtime import NativeRuntime
from disco_mt.engine.reference import WithFallback
from disco_mt.engine.runtime import Runtime
from disco_mt.engine.select import EngineOptions, check_int8, make_engine
from disco_mt.engine.torch_runtime import TorchRuntime
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.text.pair import TextPair
from golden_model import FOLDERS, Golden
from small_disco import decoded, model_of
from tiny import random_sources

Make = Callable[..., Runtime]
"""(model, shares of the vocabulary) -> runtime."""

SHAPES = [
    {},
    {"norm": "pre", "activation": "relu"},
    {"tying": "none", "positions": "sinusoidal", "target_vocabulary": 2077},
    {"width": 64, "encoder": Stack(2, 2, 100), "decoder": Stack(2, 4, 90)},
]


@pytest.fixture(params=["kernels", "onnxruntime"])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "kernels":
        if kernels() is None:
            pytest.skip("no AMX, or the kernels were not compiled")
        return NativeRuntime
    pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    from disco_mt.engine.onnx_runtime import OnnxRuntime

    return lambda model, shares=1: OnnxRuntime(model, "int8", shares)


@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_a_sentence_does_not_depend_on_its_batch(make: Make, changes: dict[str, object]) -> None:
    """Each row has its own scale, so even extreme batch mates change nothing."""
    model, sources = model_of(4, changes), random_sources([5, 3, 12, 1, 7, 9, 2], seed=4)
    runtime = make(model)
    alone, together = decoded(runtime, sources, 1), decoded(runtime, sources, 1000)
    assert [each.tokens for each in together] == [each.tokens for each in alone]
    assert [each.candidates for each in together] == [each.candidates for each in alone]
    assert [each.score for each in together] == pytest.approx([each.score for each in alone], abs=1e-5)


@pytest.fixture(scope="module", params=FOLDERS)
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return Golden.load(request.param, tmp_path_factory.mktemp("golden") / "model")


def test_int8_is_close_on_a_trained_model(make: Make, golden: Golden) -> None:
    sources = golden.sources[:60]
    ours, theirs = (
        decoded(runtime, sources, 300) for runtime in (make(golden.model), TorchRuntime(golden.model))
    )
    same = sum(
        one == other
        for each, wanted in zip(ours, theirs, strict=True)
        if len(each.tokens) == len(wanted.tokens)
        for one, other in zip(each.tokens, wanted.tokens, strict=True)
    )
    assert same > 0.65 * sum(len(wanted.tokens) for wanted in theirs)
    score = sum(abs(each.score - wanted.score) for each, wanted in zip(ours, theirs, strict=True))
    assert score / len(sources) < 0.05


def test_shares_of_the_vocabulary_change_nothing(make: Make) -> None:
    """The words are in three blocks; each thread has one."""
    model = model_of(2, {"tying": "none", "target_vocabulary": 2500})
    sources = random_sources([3, 9, 5])
    alone, shared = (decoded(make(model, shares), sources, 1) for shares in (1, 3))
    for one, other in zip(alone, shared, strict=True):
        assert (one.tokens, one.steps) == (other.tokens, other.steps)
        assert one.score == pytest.approx(other.score, abs=1e-6)


def test_the_smallest_numbers_stay_what_they_are(make: Make) -> None:
    """A runtime could treat them as 0, and would then do so in all of the user's arithmetic."""
    decoded(make(model_of(1, {})), random_sources([3]), 1)
    smallest = 5e-324
    assert smallest * 1.0 > 0
    assert float(torch.tensor(smallest, dtype=torch.float64) * 1.0) > 0


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "find_spec", lambda name: None)
    monkeypatch.setattr(select.native, "kernels", lambda: None)
    with pytest.raises(UserError, match=r"int8 needs onnx and onnxruntime.*disco-mt\[onnx\].*there is: fp32"):
        check_int8(ModelConfig())


@pytest.mark.parametrize("threads", [1, 2])
def test_int8_is_an_engine_like_the_other(make: Make, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if make is not NativeRuntime:
        monkeypatch.setattr(select.native, "kernels", lambda: None)
    options = EngineOptions(precision="int8", threads=threads)
    engine = make_engine(model_of(1, {}), cast(TextPair, None), options)
    assert isinstance(engine, WithFallback)
    assert isinstance(engine.engine, IncrementalEngine)
    assert (engine.name, engine.precision) == ("incremental", "int8")
    assert torch.get_num_threads() == 1  # rows are shared out, torch has no threads of its own
    sources = random_sources([7, 3, 9], seed=2)
    alone = decoded(make(model_of(1, {})), sources, 1)
    assert decoded(engine.engine.runtime, sources, 1) == alone
