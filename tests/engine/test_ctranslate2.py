"""CTranslate2 with our weights: the same words as our own search, the same scores."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import NUM_SPECIAL, PAD, SPECIAL_TOKENS
from disco_mt.decoding.results import Hypothesis
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import Stack
from disco_mt.systems.autoregressive.decoding import beam_search
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.build import build_model
from tiny import VOCABULARY, padded, random_sources, tiny_config

pytest.importorskip("ctranslate2", reason="the extra 'bench' is not installed")

from disco_mt.engine.ctranslate2 import CTranslate2Engine, export_ctranslate2

TOKENS = [*SPECIAL_TOKENS, *(f"w{n}" for n in range(NUM_SPECIAL, VOCABULARY))]
MARGIN = 1e-3  # two best words closer than this may change places in float32


def build(seed: int, **changes: object) -> Autoregressive:
    """Random weights that make lively predictions, in float32."""
    model = build_model(tiny_config(kind="autoregressive", **changes), seed)
    assert isinstance(model, Autoregressive)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "norm" not in name:
            parameter.data.normal_(std=0.3, generator=generator)
        elif name.endswith("bias"):
            parameter.data.normal_(std=0.1, generator=generator)
    return model.eval()


def engine_for(model: TranslationModel, path: Path) -> CTranslate2Engine:
    export_ctranslate2(model, TOKENS, TOKENS, path)
    return CTranslate2Engine(path)


@pytest.fixture(scope="module")
def copier() -> Autoregressive:
    """A model that has partly learned to copy: confident, but not always right."""
    model = build_model(tiny_config(kind="autoregressive", width=32, attention_init="xavier"), 1)
    assert isinstance(model, Autoregressive)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(150):
        lengths = torch.randint(1, 9, (64,), generator=torch.Generator().manual_seed(step)).tolist()
        batch = padded(random_sources(lengths, seed=step))
        real = batch != PAD
        hidden = model.decode(batch, model.encode(batch))
        loss = -model.word_log_probs(hidden[real], batch[real]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@torch.inference_mode()
def narrow(model: Autoregressive, source: list[int], found: Hypothesis[int]) -> bool:
    """Was any choice along this greedy path so close that rounding may decide it?"""
    target = padded([list(found.tokens)])
    best = model.next_words(model.decode(target, model.encode(padded([source])))[0], 2)
    return bool((best.log_probs[:, 0] - best.log_probs[:, 1] < MARGIN).any())


def test_greedy_words_are_the_same_on_a_thousand_sentences(copier: Autoregressive, tmp_path: Path) -> None:
    lengths = torch.randint(1, 12, (1000,), generator=torch.Generator().manual_seed(0)).tolist()
    sources = random_sources(lengths, seed=9)
    ours = beam_search(copier, padded(sources), 1, 1.0)
    theirs = engine_for(copier, tmp_path / "model").translate(sources, 1, 1.0)
    different = [n for n in range(1000) if ours[n].tokens != theirs[n].tokens]
    assert all(narrow(copier, sources[n], ours[n]) for n in different)
    assert len(different) < 5
    assert len({found.tokens for found in ours}) > 800  # it is no constant that agrees
    for one, other in zip(ours, theirs, strict=True):
        if one.tokens == other.tokens:
            assert one.score == pytest.approx(other.score, abs=1e-3)


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
def test_beams_end_alike(copier: Autoregressive, tmp_path: Path, length_penalty: float) -> None:
    sources = random_sources([1 + n % 11 for n in range(200)], seed=2)
    ours = beam_search(copier, padded(sources), 5, length_penalty)
    engine = engine_for(copier, tmp_path / "model")
    theirs = engine.translate(sources, 5, length_penalty)
    assert [found.score for found in theirs] == pytest.approx([found.score for found in ours], abs=1e-3)
    assert sum(one.tokens == other.tokens for one, other in zip(ours, theirs, strict=True)) >= 198
    for one, other in zip(ours, theirs, strict=True):
        if one.tokens == other.tokens:
            assert other.probabilities == pytest.approx(one.probabilities, abs=1e-3)
    quick = engine.translate(sources, 5, length_penalty, with_probabilities=False)
    assert [found.tokens for found in quick] == [found.tokens for found in theirs]


@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "pre"},
        {"activation": "relu"},
        {"tying": "none"},
        {"tying": "decoder"},
        {"encoder": Stack(3, 4, 24), "decoder": Stack(1, 2, 40)},
    ],
    ids=str,
)
def test_every_shape_of_model_is_the_same_there(tmp_path: Path, changes: dict[str, object]) -> None:
    model, sources = build(4, **changes), random_sources([3, 7, 1, 12, 5], seed=3)
    ours = beam_search(model, padded(sources), 1, 1.0, longest=10)
    theirs = engine_for(model, tmp_path / "model").translate(sources, 1, 1.0, longest=10)
    assert [found.tokens for found in theirs] == [found.tokens for found in ours]
    assert [found.score for found in theirs] == pytest.approx([found.score for found in ours], abs=1e-3)
    assert any(len(found.tokens) == 10 for found in ours)  # the limit was met, and met alike


def test_int8_is_close(copier: Autoregressive, tmp_path: Path) -> None:
    export_ctranslate2(copier, TOKENS, TOKENS, tmp_path / "model")
    sources = random_sources([5] * 50)
    engines = [CTranslate2Engine(tmp_path / "model", 1, precision) for precision in ("float32", "int8")]
    scores = [[found.score for found in engine.translate(sources, 1, 1.0)] for engine in engines]
    assert scores[0] == pytest.approx(scores[1], abs=0.3)


def test_workers_share_batches_and_change_no_translation(
    copier: Autoregressive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("disco_mt.engine.ctranslate2._BATCH_TOKENS", 12)  # two sentences a batch
    export_ctranslate2(copier, TOKENS, TOKENS, tmp_path / "model")
    engines = [CTranslate2Engine(tmp_path / "model", workers=workers) for workers in (1, 2)]
    assert [engine.translator.num_translators for engine in engines] == [1, 2]
    sources = random_sources([5] * 21)
    one, two = ([found.tokens for found in engine.translate(sources, 3, 1.0)] for engine in engines)
    assert one == two
    with pytest.raises(UserError, match="workers must be at least 1, got 0"):
        CTranslate2Engine(tmp_path / "model", workers=0)


def test_an_empty_source_is_translated_as_ours_does(copier: Autoregressive, tmp_path: Path) -> None:
    ours = beam_search(copier, padded([[]]), 2, 1.0)
    theirs = engine_for(copier, tmp_path / "model").translate([[]], 2, 1.0)
    assert theirs[0].tokens == ours[0].tokens


def test_what_cannot_be_exported_is_named(tmp_path: Path) -> None:
    out = tmp_path / "model"
    with pytest.raises(UserError, match=r"only autoregressive models .* not disco"):
        export_ctranslate2(build_model(tiny_config()), TOKENS, TOKENS, out)
    with pytest.raises(UserError, match="contextless"):
        export_ctranslate2(build(0, contextless=True), TOKENS, TOKENS, out)
    with pytest.raises(UserError, match="target vocabulary has 39 tokens, but the model has 40"):
        export_ctranslate2(build(0), TOKENS, TOKENS[:-1], out)
    with pytest.raises(UserError, match="must begin with <s>, <pad>"):
        export_ctranslate2(build(0), TOKENS[::-1], TOKENS, out)
    with pytest.raises(UserError, match="names 1 tokens twice"):
        export_ctranslate2(build(0), [*TOKENS[:-1], "w9"], TOKENS, out)
    assert not any(tmp_path.iterdir())


def test_a_directory_that_is_no_export_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a CTranslate2 model that `disco export` wrote"):
        CTranslate2Engine(tmp_path)


def test_a_damaged_export_is_named(copier: Autoregressive, tmp_path: Path) -> None:
    engine_for(copier, tmp_path / "model")
    file = tmp_path / "model" / "model.bin"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(UserError, match=r"cannot be loaded.*export the model again"):
        CTranslate2Engine(tmp_path / "model")


def test_unknown_precision_and_existing_output_are_named(copier: Autoregressive, tmp_path: Path) -> None:
    engine_for(copier, tmp_path / "model")
    with pytest.raises(UserError, match=r"precision must be one of .*float32.*; got 'float3'"):
        CTranslate2Engine(tmp_path / "model", precision="float3")
    with pytest.raises(UserError, match="already exists"):
        export_ctranslate2(copier, TOKENS, TOKENS, tmp_path / "model")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match=r"pip install 'disco-mt\[bench\]'"):
        CTranslate2Engine(tmp_path)
