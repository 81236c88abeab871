"""Exported ONNX files compute what the model computes, for any sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
pytest.importorskip("onnxruntime", reason="the extra 'onnx' is not installed")

import onnx
import onnxruntime

from disco_mt import context
from disco_mt.cli import main
from disco_mt.core.errors import UserError
from disco_mt.decoding.length_beam import length_candidates, predict
from disco_mt.engine import onnx_export
from disco_mt.engine.onnx_export import decoder_graph
from disco_mt.engine.onnx_graph import Graph
from disco_mt.engine.packed import pack
from disco_mt.systems.build import build_model
from disco_mt.translator import Translator
from small_model import Small, make_small, sentences
from tiny import lively, padded, random_sources, tiny_config


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return make_small(tmp_path_factory.mktemp("onnx"))


@pytest.fixture(scope="module")
def exported(small: Small, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "model"
    assert main(["export", "--model", str(small.disco), "--format", "onnx", "--out", str(out)]) == 0
    return out


@torch.inference_mode()
def test_a_reader_who_has_only_the_files_gets_the_same_words(small: Small, exported: Path) -> None:
    translator = Translator.from_pretrained(small.disco)
    encoder, decoder = (
        onnxruntime.InferenceSession(exported / f"{side}.onnx") for side in ("encoder", "decoder")
    )
    for texts in (sentences(1, seed=2), sentences(5, seed=3)):
        ids = [translator.text.source.encode(text) for text in texts]
        source = padded(ids)
        keys, seen, log_probs = encoder.run(None, {"source": source.numpy()})
        encoded = translator.model.encode(source)
        assert torch.allclose(torch.from_numpy(log_probs), encoded.length_log_probs, atol=1e-4)
        candidates = length_candidates(translator.model, encoded, 1)
        tokens = candidates.blank()
        visible = context.nothing(candidates.words, candidates.eos)
        for _ in range(2):
            wanted = predict(translator.model, candidates, tokens, visible)
            given = {"tokens": tokens.numpy(), "visible": visible.contiguous().numpy()}
            found, probabilities = decoder.run(None, given | {"source_keys": keys, "source_visible": seen})
            words = candidates.words.numpy()
            assert (found[words] == wanted.ids.numpy()[words]).all()
            assert probabilities[words] == pytest.approx(wanted.log_probs.numpy()[words], abs=1e-4)
            tokens, visible = wanted.ids, context.left_to_right(candidates.words, candidates.eos)


def test_the_files_are_whole_and_of_standard_operators(exported: Path) -> None:
    assert {"encoder.onnx", "decoder.onnx", "config.json", "tokenizer.json"} <= {
        path.name for path in exported.iterdir()
    }
    for side in ("encoder", "decoder"):
        graph = onnx.load(exported / f"{side}.onnx")
        assert {node.domain for node in graph.graph.node} == {""}
    config = json.loads((exported / "config.json").read_text(encoding="utf-8"))
    assert (config["format_version"], config["model"]["kind"]) == (2, "disco")


@pytest.mark.parametrize("changes", [{"norm": "pre"}, {"activation": "relu"}, {"tying": "none"}], ids=str)
def test_every_shape_of_model(changes: dict[str, object], small: Small, tmp_path: Path) -> None:
    text = Translator.from_pretrained(small.disco).text
    size = text.source.vocabulary_size
    config = tiny_config(source_vocabulary=size, target_vocabulary=size, **changes)
    model = lively(build_model(config), 2).float()
    onnx_export.export_onnx(model, text, tmp_path / "out")  # it checks itself
    assert (tmp_path / "out" / "decoder.onnx").exists()


def test_a_wrong_graph_is_refused(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = Translator.from_pretrained(small.disco)
    other = lively(build_model(translator.model.config), 5).float()
    wrong = decoder_graph(pack(other), Graph(other.config, "fp32"))
    monkeypatch.setattr(onnx_export, "decoder_graph", lambda weights, graph: wrong)
    with pytest.raises(UserError, match=r"differ from the model by .* nothing was written"):
        onnx_export.export_onnx(translator.model, translator.text, tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_other_kinds_are_refused(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["export", "--model", str(small.autoregressive), "--format", "onnx", "--out", str(out)]
    assert main(command) == 2
    assert "only disco models" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_sources_of_any_length(exported: Path) -> None:
    encoder = onnxruntime.InferenceSession(exported / "encoder.onnx")
    for lengths in ([1], [3, 8], [0]):
        keys, seen, log_probs = encoder.run(None, {"source": padded(random_sources(lengths)).numpy()})
        assert (keys.shape[1], keys.shape[3]) == seen.shape == (len(lengths), max(lengths) + 1)
        assert len(log_probs) == len(lengths)
