"""Engines as users select them: the same translations, and errors that list the choices."""

from __future__ import annotations

import subprocess
import sys

import pytest

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.engine.select import EngineOptions
from disco_mt.translator import Translator
from small_model import Small, make_small, sentences


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return make_small(tmp_path_factory.mktemp("engines"))


@pytest.mark.parametrize(
    "strategy", ["", "left-to-right", "all-but-itself", "mask-predict", "autoregressive"]
)
@pytest.mark.parametrize("rerank_with", ["", "self"])
def test_translations_are_those_of_the_reference(small: Small, strategy: str, rerank_with: str) -> None:
    # Two probabilities of the ninth sentence are 2e-7 apart: in float32 their order is a matter of chance.
    texts = [*sentences(8), *sentences(12)[9:], "", "The house sees the child. " * 12]
    fast = Translator.from_pretrained(small.disco, rerank_with=rerank_with)
    plain = Translator.from_pretrained(small.disco, EngineOptions(engine="reference"), rerank_with)
    assert (fast.engine.name, plain.engine.name) == ("incremental", "reference")
    counted: list[int] = []
    options, request = DecodingOptions(strategy), DecodeRequest(progress=counted.append, batch_tokens=60)
    ours = fast.translate(texts, options, request, split=True)
    theirs = plain.translate(texts, options, DecodeRequest(batch_tokens=60), split=True)
    assert [each.text for each in ours] == [each.text for each in theirs]
    assert [each.steps for each in ours] == [each.steps for each in theirs]
    assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-4)
    assert sum(counted) == sum(max(1, len(each.parts)) for each in ours if each.tokens)


def test_a_trace_is_made_by_the_plain_algorithm_and_says_the_same(small: Small) -> None:
    translator = Translator.from_pretrained(small.disco)
    texts = sentences(3)
    assert translator.engine.work.sentences == 0
    traced = translator.translate(texts, request=DecodeRequest(trace=True))
    assert translator.engine.work.sentences == 0
    assert [each.text for each in translator.translate(texts)] == [each.text for each in traced]
    assert translator.engine.work.sentences == 3


def test_ctranslate2_has_the_same_weights(small: Small) -> None:
    pytest.importorskip("ctranslate2", reason="the extra 'bench' is not installed")
    texts = sentences(10)
    for strategy in ("greedy", "beam"):
        options = DecodingOptions(strategy)
        plain = Translator.from_pretrained(small.autoregressive).translate(texts, options)
        engine = EngineOptions(engine="ctranslate2")
        fast = Translator.from_pretrained(small.autoregressive, engine).translate(texts, options)
        assert [each.score for each in fast] == pytest.approx([each.score for each in plain], abs=1e-3)
    rough = Translator.from_pretrained(
        small.autoregressive, EngineOptions(engine="ctranslate2", precision="int8")
    )
    assert len(rough.translate(texts)) == 10


@pytest.mark.parametrize(
    ("kind", "engine", "precision", "message"),
    [
        (
            "disco",
            "ctranslate2",
            "",
            "does not fit a model of kind disco on device cpu; there are: incremental, ref",
        ),
        ("cmlm", "incremental", "", "does not fit a model of kind cmlm on device cpu; there are: reference"),
        ("autoregressive", "incremental", "", "there are: reference, ctranslate2"),
        ("disco", "warp", "", "engine 'warp' is not known .* there are: incremental, reference"),
        ("disco", "", "int4", "engine incremental has no precision 'int4'; it has: fp32, int8"),
        ("disco", "reference", "int8", "engine reference has no precision 'int8'; it has: fp32"),
        ("autoregressive", "", "int8", "engine reference has no precision 'int8'"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(
    small: Small, kind: str, engine: str, precision: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        Translator.from_pretrained(getattr(small, kind), EngineOptions(engine=engine, precision=precision))


def test_a_refusal_at_the_command_line(small: Small) -> None:
    command = [sys.executable, "-m", "disco_mt", "translate", "--model", str(small.disco), "Hello."]
    done = subprocess.run([*command, "--engine", "ctranslate2"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there are: incremental, reference" in " ".join(done.stderr.split())


def test_int8_from_python_and_what_it_does_not_have(small: Small) -> None:
    pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")
    translator = Translator.from_pretrained(small.disco, EngineOptions(precision="int8"))
    texts = sentences(6)
    assert len(translator.translate(texts)) == 6
    assert translator.engine.work.sentences == 6
    with pytest.raises(UserError, match="strategy 'mask-predict' has no precision int8; it has: fp32"):
        translator.translate(texts, DecodingOptions("mask-predict"))
    traced = translator.translate(texts[0], request=DecodeRequest(trace=True))
    assert traced.trace is not None  # by the plain algorithm, in fp32
