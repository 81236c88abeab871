"""int8, and ONNX Runtime's float32: close to torch, and no row depends on its batch mates."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")

from disco_mt.decoding.translation import Hypothesis
from disco_mt.engine import choice
from disco_mt.engine.best_words import Blocks
from disco_mt.engine.choice import Incremental, check_int8
from disco_mt.engine.easy_first import IncrementalEngine
from disco_mt.engine.onnx_runtime import OnnxRuntime
from disco_mt.engine.runtime import Runtime
from disco_mt.engine.torch_runtime import TorchRuntime
from disco_mt.errors import UserError
from disco_mt.models.build import build_model
from disco_mt.models.disco import DisCo
from disco_mt.special import NUM_SPECIAL
from golden_model import FOLDERS, Golden
from tiny import lively, random_sources, tiny_config

SHAPES = [
    {},
    {"norm": "pre", "activation": "relu"},
    {"tying": "none", "positions": "sinusoidal", "target_vocabulary": 2077},
]


def model_of(seed: int, changes: dict[str, object]) -> DisCo:
    model = lively(build_model(tiny_config(**changes), seed), seed).float()
    assert isinstance(model, DisCo)
    return model


def decoded(runtime: Runtime, sources: list[list[int]], batch_tokens: int) -> list[Hypothesis[int]]:
    found = IncrementalEngine(runtime).decode(sources, "easy-first", 6, 3, batch_tokens)
    places = {each.place: each.hypothesis for each in found}
    return [places[place] for place in range(len(sources))]


@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_float32_is_that_of_torch(changes: dict[str, object]) -> None:
    model, sources = model_of(3, changes), random_sources([1, 4, 9, 6, 11, 2], seed=3)
    runtime = OnnxRuntime(model, "fp32")
    for batch_tokens in (1, 40):
        ours, theirs = decoded(runtime, sources, batch_tokens), decoded(TorchRuntime(model), sources, 1)
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        assert [each.steps for each in ours] == [each.steps for each in theirs]
        assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-4)


@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_in_int8_a_sentence_does_not_depend_on_its_batch(changes: dict[str, object]) -> None:
    """Rounding scales are a row's own; the wildest mates change nothing."""
    model, sources = model_of(4, changes), random_sources([5, 3, 12, 1, 7, 9, 2], seed=4)
    runtime = OnnxRuntime(model, "int8")
    alone, together = decoded(runtime, sources, 1), decoded(runtime, sources, 1000)
    assert [each.tokens for each in together] == [each.tokens for each in alone]
    assert [each.candidates for each in together] == [each.candidates for each in alone]
    assert [each.score for each in together] == pytest.approx([each.score for each in alone], abs=1e-5)


@pytest.fixture(scope="module", params=FOLDERS)
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return Golden.load(request.param, tmp_path_factory.mktemp("golden") / "model")


def test_int8_is_close_on_a_trained_model(golden: Golden) -> None:
    sources = golden.sources[:60]
    ours, theirs = (
        decoded(runtime, sources, 300)
        for runtime in (OnnxRuntime(golden.model, "int8"), TorchRuntime(golden.model))
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


@pytest.mark.parametrize("vocabulary", [NUM_SPECIAL + 1, 16, 40, 1024, 1045, 3000])
def test_the_parts_of_a_vocabulary_cover_it_once(vocabulary: int) -> None:
    blocks = Blocks(vocabulary)
    assert [start for start, _, _ in blocks.cuts[1:]] == [end for _, end, _ in blocks.cuts[:-1]]
    assert (blocks.cuts[0][0], blocks.cuts[-1][1]) == (0, vocabulary)
    assert all((end - start) % part == 0 for start, end, part in blocks.cuts)
    entries = [
        start + part + stride * step
        for (start, end, size), stride in zip(blocks.cuts[1:], blocks.strides.tolist(), strict=True)
        for part in range(stride)
        for step in range(size)
    ]
    assert sorted(entries) == list(range(NUM_SPECIAL, vocabulary))
    assert len(blocks.starts) == len(blocks.cuts) - 1


def test_a_gain_of_zero_cannot_be_undone() -> None:
    """The vocabulary's rows are rounded before the last LayerNorm's gain, unless that is lost."""
    model = model_of(6, {})
    norm = model.decoder_layers[-1].feed_forward_frame.norm
    for gain in (1.0, 0.0):
        with torch.no_grad():
            norm.weight[3] = gain
            hidden = norm(torch.randn(50, model.config.width, generator=torch.Generator().manual_seed(6)))
        ours, theirs = (
            runtime.best_words(hidden, None) for runtime in (OnnxRuntime(model, "int8"), TorchRuntime(model))
        )
        assert ours.log_probs.numpy() == pytest.approx(theirs.log_probs.numpy(), abs=0.05)
        assert (ours.ids == theirs.ids).float().mean() > 0.9


@pytest.mark.parametrize("number", [1, 2, 3, 50])
def test_threads_share_a_vocabulary_out(number: int) -> None:
    shares = Blocks(5000).shares(number)
    assert len(shares) == min(number, 6)
    assert [cut for share in shares for cut in share] == Blocks(5000).cuts
    assert max(map(len, shares)) - min(map(len, shares)) <= 2  # the special tokens are one


def test_shares_of_the_vocabulary_change_nothing() -> None:
    """Its words go in three blocks here; each thread has one."""
    model = model_of(2, {"tying": "none", "target_vocabulary": 2500})
    sources = random_sources([3, 9, 5])
    alone, shared = (decoded(OnnxRuntime(model, "int8", shares), sources, 1) for shares in (1, 3))
    for one, other in zip(alone, shared, strict=True):
        assert (one.tokens, one.steps) == (other.tokens, other.steps)
        assert one.score == pytest.approx(other.score, abs=1e-6)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"int8 needs onnx and onnxruntime.*disco-mt\[onnx\].*there is: fp32"):
        check_int8()


@pytest.mark.parametrize("threads", [1, 2])
def test_int8_is_an_engine_like_the_other(threads: int) -> None:
    engine = Incremental(model_of(1, {}), "int8", threads)
    assert (engine.name, engine.precision, engine.threads) == ("incremental", "int8", threads)
    assert torch.get_num_threads() == 1  # rows are shared out, torch has no threads of its own
    sources = random_sources([7, 3, 9], seed=2)
    alone = decoded(OnnxRuntime(model_of(1, {}), "int8"), sources, 1)
    assert decoded(engine.engine.runtime, sources, 1) == alone
