"""Batch mates do not change a translation, bit by bit."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from disco_mt.decoding.options import DecodingDefaults, DecodingOptions
from disco_mt.nn.config import Stack
from disco_mt.nn.directory import save_model
from disco_mt.pins.parse import Pin
from disco_mt.serve.invariant import BatchInvariant
from disco_mt.serve.models import ServedModel
from disco_mt.serve.process import Batch, LocalDecoder, Sentence
from disco_mt.systems.build import build_model, reranker_of
from disco_mt.translator import Translator
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
def reranking(wide: ServedModel) -> ServedModel:
    """The same, which reranks its own candidates."""
    assert isinstance(wide.decoder, LocalDecoder)
    plain = wide.decoder.translator
    defaults = DecodingDefaults(length_weight=0.5)
    return ServedModel.local(
        "reranking", replace(plain, reranker=reranker_of(plain.model), defaults=defaults)
    )


@pytest.mark.parametrize("name", ["wide", "reranking", "converted"])
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
    plain = wide.decoder.translator.translate(texts, options)
    assert plain != together  # or the test would prove nothing: in torch's own arithmetic, rounding shows


@pytest.mark.parametrize("shape", [(1, 24), (3, 512), (20, 1100), (2, 7, 600)])
def test_padding_changes_no_result(shape: tuple[int, ...]) -> None:
    """In float64, where rounding is out of the way; for few and many rows, short and long sums."""
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64)
    weight = torch.randn(shape[-1], 40, dtype=torch.float64)
    bias = torch.randn(40, dtype=torch.float64)
    heads = x.expand(1, 2, *x.shape) if x.dim() == 2 else x[:, None].expand(-1, 2, -1, -1)
    mask = torch.ones(1, 1, 1, heads.shape[2], dtype=torch.bool)

    def results() -> list[Tensor]:
        rows = x.flatten(0, -2)
        return [
            F.linear(x, weight.T, bias),
            F.linear(x, weight.T),
            torch.addmm(bias, rows, weight),
            x @ weight,
            torch.mm(rows, weight),
            torch.matmul(rows, weight, out=torch.empty(len(rows), 40, dtype=torch.float64)),
            F.scaled_dot_product_attention(heads, heads, heads, attn_mask=mask, scale=0.1),
            F.scaled_dot_product_attention(heads, heads, heads),
            x.sum(dim=x.dim() - 1),
            x.sum(),
        ]

    with BatchInvariant():
        padded = results()
    for ours, torchs in zip(padded, results(), strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-12, atol=1e-12)


def test_other_threads_keep_torch_as_it_is() -> None:
    x, weight = torch.randn(1, 2048), torch.randn(2048, 300)
    before = x @ weight
    with BatchInvariant(), ThreadPoolExecutor(1) as pool:
        assert torch.equal(pool.submit(lambda: x @ weight).result(), before)
        assert not torch.equal(x @ weight, before)  # padded: it rounds differently
    assert torch.equal(x @ weight, before)


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
