"""Every option of a model in every runtime: it runs, or an error names the option."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from disco_mt import context
from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import BOS, EOS, MASK, NUM_SPECIAL, SPECIAL_TOKENS
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Hypothesis
from disco_mt.engine import select
from disco_mt.engine.incremental import IncrementalEngine
from disco_mt.engine.native_runtime import NativeRuntime, not_in_kernels
from disco_mt.engine.reference import WithFallback
from disco_mt.engine.runtime import Rows, Runtime
from disco_mt.engine.shortlist import Shortlist
from disco_mt.engine.torch_runtime import TorchRuntime
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.nn.directory import read_config, save_model
from disco_mt.pins.pinned import Neighbours, TokenPin
from disco_mt.pins.place import Pinned
from disco_mt.systems import SYSTEMS, decode
from disco_mt.systems.autoregressive.decoding import beam_search
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.build import build_model, load_weights, reranker_of
from disco_mt.systems.disco.model import DisCo
from disco_mt.text.pair import TextPair
from disco_mt.translator import Translator
from small_disco import decoded
from small_disco import model_of as float32_model
from small_model import Small, make_small
from tiny import MARIAN, POOLED, PRIOR, VOCABULARY, lively, padded, random_sources, tiny_config

OPTIONS: dict[str, dict[str, object]] = {
    "norm_epsilon": {"norm_epsilon": 1e-2},
    "activation": {"activation": "silu"},
    "positions": {"positions": "marian"},
    "scale_embeddings": {"scale_embeddings": True},
    "output_bias": {"output_bias": True},
    "start_token": {"start_token": True},
    "query_word": {"query_word": True},
    "length.prior": {"length": PRIOR},
    "length.predictor": {"length": POOLED},
    "all of them": MARIAN,
    "all of them, pre-norm, untied": {**MARIAN, "norm": "pre", "tying": "none"},
}
DISCO_ONLY = ("start_token", "query_word")
"""Options that an autoregressive model cannot have."""
every_option = pytest.mark.parametrize("name", OPTIONS)
SOURCES = random_sources([5, 2, 9, 1], seed=8)
ORDERS = [name for name, decoder in SYSTEMS["disco"].decoders.items() if decoder.order is not None]


@cache
def model_of(name: str) -> DisCo:
    """In float64."""
    model = lively(build_model(tiny_config(**OPTIONS[name]), 3), 3)
    assert isinstance(model, DisCo)
    return model


@cache
def single(name: str) -> DisCo:
    """In float32."""
    return float32_model(3, OPTIONS[name])


# Reference


@every_option
@torch.inference_mode()
def test_an_option_is_not_ignored(name: str) -> None:
    """With the same weights, a model without the option predicts something else."""
    model, plain = model_of(name), build_model(tiny_config(tying=model_of(name).config.tying)).double().eval()
    theirs = plain.state_dict()
    rows = {key: value[: len(theirs[key])] for key, value in model.state_dict().items() if key in theirs}
    plain.load_state_dict(rows, strict=False)
    found = []
    for each in (model, plain):
        source, target = padded(SOURCES), padded(random_sources([6, 4, 8, 3], seed=9))
        encoded = each.encode(source)
        hidden = each.decode(target, context.left_to_right(*context.words_and_eos(target)), encoded)
        assert encoded.length_log_probs is not None
        found.append((encoded.length_log_probs[:, 1:], each.logits(hidden)))
    same = [torch.allclose(*both) for both in zip(*found, strict=True)]
    assert not all(same)


@every_option
def test_a_model_directory_keeps_it(name: str, tmp_path: Path) -> None:
    model = single(name)
    save_model(tmp_path, model, {}, "# Options\n", {})
    again = load_weights(read_config(tmp_path))
    assert again.config == model.config
    options = DecodingOptions(iterations=5, length_beam=3)
    assert decode(again, padded(SOURCES), options) == decode(model, padded(SOURCES), options)


# The incremental engine in torch


@every_option
@pytest.mark.parametrize(
    ("strategy", "effort"), [*((name, "normal") for name in ORDERS), ("easy-first", "high")]
)
def test_the_engine_equals_the_plain_algorithm_and_its_reranker(
    name: str, strategy: str, effort: str
) -> None:
    model, options = model_of(name), DecodingOptions(strategy, effort, 8, 3)
    reranker = reranker_of(model)
    assert reranker is not None
    expected = reranker.scored(padded(SOURCES), decode(model, padded(SOURCES), options), options)
    for batch_tokens in (1, 40):
        engine = IncrementalEngine(TorchRuntime(model))
        request = DecodeRequest(score_candidates=True, batch_tokens=batch_tokens)
        for index, ours in engine.decode(SOURCES, options, request):
            theirs = expected[index]
            assert (ours.tokens, ours.steps, ours.candidates) == (
                theirs.tokens,
                theirs.steps,
                theirs.candidates,
            )
            assert ours.score == pytest.approx(theirs.score, abs=1e-10)
            for score, wanted in zip(ours.candidate_scores, theirs.candidate_scores, strict=True):
                assert score.words == pytest.approx(wanted.words, abs=1e-10)
                assert score.end == pytest.approx(wanted.end, abs=1e-10)


@every_option
def test_a_shortlist_of_all_words_gives_the_same_first_pass(name: str, tmp_path: Path) -> None:
    every = Shortlist(torch.full((VOCABULARY, 1), -1), torch.arange(NUM_SPECIAL, VOCABULARY))
    every.save(tmp_path / "all.safetensors")
    read = Shortlist.load(tmp_path / "all.safetensors")
    plain, listed = (IncrementalEngine(TorchRuntime(model_of(name)), shortlist=each) for each in (None, read))
    once = DecodingOptions(iterations=1)
    for source in SOURCES:
        one, other = (next(engine.finished([source], once)).hypothesis for engine in (plain, listed))
        assert one.candidates == other.candidates


# ONNX Runtime


def onnx_runtime(model: DisCo, precision: str, shares: int = 1) -> Runtime:
    pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    from disco_mt.engine.onnx_runtime import OnnxRuntime

    return OnnxRuntime(model, precision, shares)


@torch.inference_mode()
def log_probs(runtime: Runtime, heads: int) -> dict[str, Tensor]:
    """Log probabilities of lengths, and of words in a pass in which every position sees all others."""
    encoded, words = runtime.encode(padded(SOURCES)), torch.tensor(random_sources([9] * len(SOURCES), 7))
    batch, start = len(words), runtime.start
    tokens = torch.cat([torch.full((batch, start), BOS), words, torch.full((batch, 1), EOS)], dim=1)
    layers, _, _, _, size = encoded.keys.shape
    keys = torch.zeros(layers, batch, heads, tokens.shape[1], size)
    runtime.put_keys(tokens.flatten(), *torch.ones_like(tokens).nonzero(as_tuple=True), keys)
    candidates, places = torch.ones_like(words).nonzero(as_tuple=True)
    visible = torch.ones(len(places), tokens.shape[1], dtype=torch.bool)
    visible[torch.arange(len(places)), places + start] = False
    hidden = runtime.later_pass(Rows(places, candidates, candidates), visible, keys, encoded)
    return {
        "lengths": encoded.length_log_probs[:, 1:],
        "words": runtime.word_log_probs(hidden, words.flatten()),
        "best": runtime.best_words(hidden, None).log_probs,
    }


@every_option
def test_onnx_float32_is_that_of_torch(name: str) -> None:
    model = single(name)
    runtime = onnx_runtime(model, "fp32")
    assert log_probs(runtime, 2) == {
        key: pytest.approx(value, abs=1e-4) for key, value in log_probs(TorchRuntime(model), 2).items()
    }
    ours, theirs = decoded(runtime, SOURCES, 40), decoded(TorchRuntime(model), SOURCES, 1)
    assert [each.tokens for each in ours] == [each.tokens for each in theirs]
    assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-4)


@every_option
def test_onnx_int8_is_close(name: str) -> None:
    """Log probabilities of these models have a standard deviation of 2."""
    model = single(name)
    runtime = onnx_runtime(model, "int8", 2)
    quantized, exact = log_probs(runtime, 2), log_probs(TorchRuntime(model), 2)
    for key, wanted in exact.items():
        assert (quantized[key] - wanted).abs().mean() < 0.25, key
    alone, together = (decoded(runtime, SOURCES, batch_tokens) for batch_tokens in (1, 1000))
    assert [each.candidates for each in together] == [each.candidates for each in alone]


@pytest.mark.parametrize("activation", ["gelu", "relu", "silu"])
def test_int8_cuts_nothing_off_an_activation(activation: str) -> None:
    pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    from disco_mt.engine.onnx_graph import Graph

    graph = Graph(tiny_config(activation=activation), "int8")
    x = graph.input("x", "float", ("rows", 40))
    graph.output(
        "y", graph.product(graph.activation(x), torch.eye(40), activated=True), "float", ("rows", 40)
    )
    rows = torch.linspace(-6, 6, 400).view(10, 40)  # the first rows have no value above 0
    (found,) = onnxruntime.InferenceSession(graph.model()).run(None, {"x": rows.numpy()})
    wanted = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu}[activation](rows)
    assert (torch.from_numpy(found) - wanted).abs().max() < 0.55 * 6 / 223


def test_int8_cuts_no_far_number_off_a_model_that_began_as_one_of_marians() -> None:
    """In OPUS-MT's encoders, some outputs of LayerNorm are outliers of 18 standard deviations."""
    stack = Stack(2, 2, 64)
    model = float32_model(3, {**MARIAN, "width": 192, "encoder": stack, "decoder": stack})
    with torch.no_grad():
        frame = model.encoder.layers[0].feed_forward_frame
        model.encoder.layers[0].feed_forward.down.bias[5] = 500.0
        frame.norm.weight[5] = 0.2
        ours, theirs = (
            runtime.encode(padded(SOURCES[:1])).keys
            for runtime in (onnx_runtime(model, "int8"), TorchRuntime(model))
        )
    assert (ours - theirs).abs().mean() < 0.1 * theirs.abs().mean()


@pytest.mark.parametrize("gain", [1.0, 0.0])
def test_a_bias_of_words_in_int8_whether_or_not_the_last_norm_can_be_undone(gain: float) -> None:
    model = float32_model(6, {"output_bias": True})
    norm = model.decoder_layers[-1].feed_forward_frame.norm
    with torch.no_grad():
        norm.weight[3] = gain
        hidden = norm(torch.randn(50, model.config.width, generator=torch.Generator().manual_seed(6)))
    ours, theirs = (
        runtime.best_words(hidden, None) for runtime in (onnx_runtime(model, "int8"), TorchRuntime(model))
    )
    assert ours.log_probs.numpy() == pytest.approx(theirs.log_probs.numpy(), abs=0.1)
    assert (ours.ids == theirs.ids).float().mean() > 0.9


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return make_small(tmp_path_factory.mktemp("options"))


@pytest.fixture(scope="module")
def text(small: Small) -> TextPair:
    return Translator.from_pretrained(small.disco).text


@every_option
def test_exported_to_onnx(name: str, text: TextPair, tmp_path: Path) -> None:
    """The export checks itself on two sentences, first pass and left to right."""
    pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    onnx_export = pytest.importorskip(
        "disco_mt.engine.onnx_export", reason="the extra 'onnx' is not installed"
    )
    size = text.source.vocabulary_size
    model = float32_model(2, {"source_vocabulary": size, "target_vocabulary": size, **OPTIONS[name]})
    onnx_export.export_onnx(model, text, tmp_path / "out")
    assert (tmp_path / "out" / "decoder.onnx").exists()


# The kernels


@every_option
def test_the_kernels_refuse_it_by_name(name: str) -> None:
    named = "start_token = True" if name.startswith("all") else f"{name} = "
    with pytest.raises(UserError, match=f"the int8 kernels do not support .*{named}.*disco-mt.onnx"):
        NativeRuntime(model_of(name))


def test_the_kernels_run_models_of_default_options() -> None:
    for changes in ({}, {"norm": "pre", "activation": "relu"}, {"positions": "sinusoidal", "tying": "none"}):
        assert not_in_kernels(tiny_config(**changes)) == ""


@every_option
def test_onnx_runtime_steps_in_where_there_are_kernels(
    name: str, text: TextPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select.native, "kernels", object)
    assert select.arithmetic("int8") == "kernels"
    assert select.arithmetic("int8", single(name).config) == "onnxruntime"
    monkeypatch.setattr(select, "find_spec", lambda name: None)
    select.check_int8(ModelConfig())
    with pytest.raises(UserError, match="int8 needs onnx and onnxruntime"):
        select.check_int8(single(name).config)
    monkeypatch.undo()
    monkeypatch.setattr(select.native, "kernels", object)
    onnx_runtime(single(name), "int8")
    engine = select.make_engine(single(name), text, select.EngineOptions(precision="int8", threads=2))
    assert isinstance(engine, WithFallback)
    assert isinstance(engine.engine, IncrementalEngine)
    assert decoded(engine.engine.runtime, SOURCES, 1) == decoded(
        onnx_runtime(single(name), "int8", 2), SOURCES, 1
    )


# Word by word


@every_option
def test_word_by_word_is_the_fixed_point_of_left_to_right(name: str) -> None:
    model, source = model_of(name), padded(SOURCES)
    refined = decode(model, source, DecodingOptions("left-to-right", iterations=30, length_beam=1))
    written = decode(model, source, DecodingOptions("autoregressive", length_beam=1))
    for ours, rest in zip(written, refined, strict=True):
        assert (ours.tokens, ours.steps) == (rest.tokens, len(ours.tokens))
        assert ours.probabilities == pytest.approx(rest.probabilities, abs=1e-10)


# Pins


@torch.inference_mode()
def filled_in(model: DisCo, source: list[int], found: Hypothesis[int], pin: TokenPin) -> list[int]:
    """Word by word around a pin, in the order of confidence in the first pass."""
    assert found.trace is not None
    assert pin.at is not None
    tokens, first = [MASK] * len(found.tokens), found.trace.passes[0][0].probabilities
    tokens[pin.at : pin.end] = pin.tokens
    encoded = model.encode(padded([source]))
    for n in sorted(range(len(tokens)), key=lambda n: (-first[n], n)):
        if tokens[n] != MASK:
            continue
        target = torch.tensor([[*tokens, EOS]])
        seen = (target != MASK)[:, None].expand(-1, len(tokens) + 1, -1)
        hidden = model.decode(target, seen, encoded)[0, n]
        tokens[n] = NUM_SPECIAL + int(model.logits(hidden)[NUM_SPECIAL:].argmax())
    return tokens


@every_option
def test_pinned_words_are_filled_in_around(name: str) -> None:
    anything = Neighbours(*(torch.ones(VOCABULARY, dtype=torch.bool) for _ in range(2)))
    model, draw = model_of(name), random.Random(name)
    for source in SOURCES:
        pin = TokenPin((draw.randrange(NUM_SPECIAL, VOCABULARY), 7), draw.randrange(2))
        for placed in (pin, TokenPin(pin.tokens)):
            request = DecodeRequest(Pinned(((placed,),), anything), trace=True)
            options = DecodingOptions(iterations=40, length_beam=1)
            (found,) = decode(model, padded([source]), options, request)
            assert sum(found.pinned) == 2
            where = TokenPin(pin.tokens, found.pinned.index(True))
            assert list(found.tokens) == filled_in(model, source, found, where)


# CTranslate2


@every_option
def test_exported_to_ctranslate2(name: str, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra 'bench' is not installed")
    from disco_mt.engine.ctranslate2 import CTranslate2Engine, export_ctranslate2

    theirs = {key: value for key, value in OPTIONS[name].items() if key not in (*DISCO_ONLY, "length")}
    if not theirs:  # then such a model cannot even be
        with pytest.raises(UserError, match=r"for disco models|for models that predict a length"):
            build_model(tiny_config(kind="autoregressive", **OPTIONS[name]))
        return
    model: TranslationModel = lively(build_model(tiny_config(kind="autoregressive", **theirs), 4), 4, 0.3)
    model = model.float()
    assert isinstance(model, Autoregressive)
    tokens = [*SPECIAL_TOKENS, *(f"w{n}" for n in range(NUM_SPECIAL, VOCABULARY))]
    export_ctranslate2(model, tokens, tokens, tmp_path / "model")
    sources = random_sources([3, 7, 1, 12, 5, 8, 2, 6], seed=3)
    ours = beam_search(model, padded(sources), 1, 1.0, longest=10)
    found = CTranslate2Engine(tmp_path / "model").translate(sources, 1, 1.0, longest=10)
    assert [each.tokens for each in found] == [each.tokens for each in ours]
    assert [each.score for each in found] == pytest.approx([each.score for each in ours], abs=1e-3)
    for one, other in zip(found, ours, strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-4)
