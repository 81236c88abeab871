"""Batch mates do not change a translation, bit by bit."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from disco_mt.decoding.options import DecodingOptions
from disco_mt.nn.config import Stack
from disco_mt.nn.directory import save_model
from disco_mt.pins.parse import Pin
from disco_mt.serve.decoder import Batch, LocalDecoder, Sentence
from disco_mt.serve.models import ServedModel
from disco_mt.systems.build import build_model
from disco_mt.systems.disco.model import DisCo
from disco_mt.translator import Own, Translator
from small_model import Small, sentences
from tiny import MARIAN, lively


@pytest.fixture(scope="module")
def wide(small: Small, tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    """As wide as models that people use: kernels choose by size. Rounding is magnified by large weights."""
    return served(small, tmp_path_factory.mktemp("wide"))


@pytest.fixture(scope="module")
def converted(small: Small, tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    """The same with the options of a model that was converted from an autoregressive one."""
    return served(small, tmp_path_factory.mktemp("converted"), **MARIAN)


def served(small: Small, path: Path, **options: Any) -> ServedModel:
    found = Translator.from_pretrained(small.disco)
    sizes = Stack(3, 4, 768)
    config = replace(
        found.model.config, width=192, encoder=sizes, decoder=sizes, max_source=200, max_target=200, **options
    )
    save_model(path, lively(build_model(config)).float(), found.text.save(path), "# Wide\n", {})
    return ServedModel.local("wide", Translator.from_pretrained(path))


@pytest.fixture(scope="module")
def reader(wide: ServedModel) -> ServedModel:
    """The same, which ranks its own candidates."""
    assert isinstance(wide.decoder, LocalDecoder)
    plain = wide.decoder.translator
    assert isinstance(plain.model, DisCo)
    return ServedModel.local("reader", replace(plain, rescorer=plain.model, own=Own(length_weight=0.5)))


@pytest.mark.parametrize("name", ["wide", "reader", "converted"])
@pytest.mark.parametrize("strategy", ["easy-first", "mask-predict"])
def test_together_as_alone(request: pytest.FixtureRequest, name: str, strategy: str) -> None:
    wide: ServedModel = request.getfixturevalue(name)
    draw = random.Random(3)  # lengths from one token to some ninety
    texts = ["x", *(" ".join(sentences(draw.randint(1, 6), seed=seed)) for seed in range(12))]
    options = DecodingOptions(strategy, iterations=4)
    together = wide.translate(Batch([Sentence(text) for text in texts], options))
    for text, found in zip(texts, together, strict=True):
        assert wide.translate(Batch([Sentence(text)], options)) == [found]
    assert isinstance(wide.decoder, LocalDecoder)
    plain = wide.decoder.translator.translate(texts, strategy, 4)
    assert [each.score for each in plain] == pytest.approx([each.score for each in together], abs=0.5)
    assert plain != together  # or the test would prove nothing: without care, rounding shows


@pytest.mark.parametrize("kind", ["disco", "cmlm", "autoregressive"])
def test_every_kind_of_model(small: Small, kind: str) -> None:
    model = ServedModel.local(kind, Translator.from_pretrained(getattr(small, kind)))
    texts = [Sentence(text) for text in sentences(12)]
    options = DecodingOptions(iterations=3)
    assert [model.translate(Batch([text], options))[0] for text in texts] == model.translate(
        Batch(texts, options)
    )


def test_pins_and_traces_change_nothing_for_others(wide: ServedModel) -> None:
    texts = [Sentence(text) for text in sentences(8)]
    pinned = [Sentence("The old house.", (Pin("Haus"),)), *texts]
    options = DecodingOptions(iterations=3)
    alone = [wide.translate(Batch([text], options))[0] for text in pinned]
    assert wide.translate(Batch(pinned, options)) == alone
    traced = wide.translate(Batch(texts[:2], options, trace=True))
    assert [wide.translate(Batch([text], options, trace=True))[0] for text in texts[:2]] == traced
