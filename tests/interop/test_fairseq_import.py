"""Import of the authors' format: checkpoints made here, with every size different from every other.

The renaming is written out anew and the other way round, so that the importer is checked and not repeated.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from disco_mt.cli import main
from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.decoding.options import DecodingOptions
from disco_mt.interop.fairseq import import_fairseq
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.systems import decode
from disco_mt.systems.build import build_model
from disco_mt.translator import Translator
from tiny import lively, padded

Checkpoint = dict[str, Any]

UNEQUAL = ModelConfig(
    width=24,
    encoder=Stack(layers=1, heads=2, hidden=20),
    decoder=Stack(layers=3, heads=4, hidden=44),
    dropout=0.25,
    tying="decoder",
    max_source=19,
    max_target=27,
    length_classes=13,
    source_vocabulary=31,
    target_vocabulary=38,
)


def theirs(model: TranslationModel) -> dict[str, Tensor]:
    """The weights of one of our models under the authors' names."""
    ours = model.state_dict()
    encoder, decoder = ours["encoder.words.weight"], ours["words.weight"]
    unused = torch.full((2, model.config.width), 9.0)  # rows before the first real position
    found = {
        "encoder.version": torch.tensor([3.0]),
        "encoder.embed_tokens.weight": encoder,
        "encoder.embed_positions.weight": torch.cat([unused, ours["encoder.positions.weight"]]),
        "encoder.embed_lengths.weight": ours["encoder.length.weight"],
        "decoder.version": torch.tensor([2.0]),
        "decoder.embed_tokens.weight": decoder,
        "decoder.embed_positions.weight": torch.cat([unused, ours["positions.weight"]]),
    }
    if model.config.tying == "none":
        found["decoder.embed_out"] = ours["output.weight"]
    for i in range(model.config.encoder.layers):
        here, there = f"encoder.layers.{i}", f"encoder.layers.{i}"
        found |= attention(ours, f"{here}.attention", f"{there}.self_attn")
        found |= norm(ours, f"{here}.attention_frame.norm", f"{there}.layer_norms.0")
        found |= norm(ours, f"{here}.feed_forward_frame.norm", f"{there}.layer_norms.1")
        found |= feed_forward(ours, here, there)
    for i in range(model.config.decoder.layers):
        here, there = f"layers.{i}", f"decoder.layers.{i}"
        found |= attention(ours, f"{here}.self_attention", f"{there}.self_attn")
        found |= norm(ours, f"{here}.self_frame.norm", f"{there}.self_attn_layer_norm")
        found |= attention(ours, f"{here}.cross_attention", f"{there}.encoder_attn")
        found |= norm(ours, f"{here}.cross_frame.norm", f"{there}.encoder_attn_layer_norm")
        found |= norm(ours, f"{here}.feed_forward_frame.norm", f"{there}.final_layer_norm")
        found |= feed_forward(ours, here, there)
    return {name: tensor.clone() for name, tensor in found.items()}


def attention(ours: dict[str, Tensor], here: str, there: str) -> dict[str, Tensor]:
    found = {}
    for kind in ("weight", "bias"):
        parts = [ours[f"{here}.query.{kind}"], ours[f"{here}.key_value.{kind}"]]
        found[f"{there}.in_proj_{kind}"] = torch.cat(parts)
        found[f"{there}.out_proj.{kind}"] = ours[f"{here}.out.{kind}"]
    return found


def norm(ours: dict[str, Tensor], here: str, there: str) -> dict[str, Tensor]:
    return {f"{there}.gamma": ours[f"{here}.weight"], f"{there}.beta": ours[f"{here}.bias"]}


def feed_forward(ours: dict[str, Tensor], here: str, there: str) -> dict[str, Tensor]:
    return {
        f"{there}.{name}.{kind}": ours[f"{here}.feed_forward.{part}.{kind}"]
        for name, part in (("fc1", "up"), ("fc2", "down"))
        for kind in ("weight", "bias")
    }


def arguments(config: ModelConfig) -> dict[str, object]:
    """What the authors' code would have kept of its command line."""
    return {
        "arch": "disco_transformer",
        "source_lang": "ro",
        "target_lang": "en",
        "dropout": config.dropout,
        "encoder_attention_heads": config.encoder.heads,
        "decoder_attention_heads": config.decoder.heads,
        "encoder_normalize_before": False,
        "decoder_normalize_before": False,
        "share_all_embeddings": config.tying == "all",
        "share_decoder_input_output_embed": config.tying != "none",
    }


def lively_model(config: ModelConfig) -> TranslationModel:
    """Random weights, LayerNorms too: a mix-up of any two tables of one shape must show."""
    model = lively(build_model(config)).float()
    generator = torch.Generator().manual_seed(7)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.data.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    return model


class Files:
    """A checkpoint and its dictionaries on disk."""

    def __init__(self, folder: Path, config: ModelConfig) -> None:
        self.folder, self.out = folder, folder / "model"
        self.checkpoint, self.source, self.target = (
            folder / name for name in ("checkpoint.pt", "dict.ro.txt", "dict.en.txt")
        )
        self.model = lively_model(config)
        self.content: Checkpoint = {
            "args": Namespace(**arguments(config)),
            "model": theirs(self.model),
            "extra_state": {"epoch": 3},
        }
        self.dictionary(self.source, "s" if config.tying != "all" else "w", config.source_vocabulary)
        self.dictionary(self.target, "t" if config.tying != "all" else "w", config.target_vocabulary)

    def dictionary(self, path: Path, prefix: str, size: int) -> None:
        symbols = [f"{prefix}{number} {9 * number + 1}\n" for number in range(size - NUM_SPECIAL)]
        path.write_text("".join(symbols), encoding="utf-8")

    def save(self, change: Callable[[Checkpoint], object] | None = None, legacy: bool = False) -> None:
        if change:
            change(self.content)
        torch.save(self.content, self.checkpoint, _use_new_zipfile_serialization=not legacy)

    def load(self) -> ModelConfig:
        return import_fairseq(self.checkpoint, self.source, self.target, self.out)

    def command(self) -> list[str]:
        dictionaries = ["--source-dict", str(self.source), "--target-dict", str(self.target)]
        checkpoint = ["--checkpoint", str(self.checkpoint), "--out", str(self.out)]
        return ["import-fairseq", *checkpoint, *dictionaries]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, UNEQUAL)


def changed(**changes: Any) -> ModelConfig:
    return ModelConfig(**{**vars(UNEQUAL), **changes})


CONFIGS = {
    "all unequal": UNEQUAL,
    "untied output": changed(tying="none"),
    "joint": changed(tying="all", source_vocabulary=33, target_vocabulary=33),
    "deep encoder, shallow decoder": changed(
        encoder=Stack(layers=3, heads=8, hidden=12), decoder=Stack(layers=1, heads=1, hidden=8)
    ),
    "more than ten layers": changed(encoder=Stack(12, 2, 8), decoder=Stack(11, 2, 8)),
    "more lengths than positions": changed(length_classes=40, max_source=64, max_target=9),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_what_is_imported_translates_as_the_original(
    tmp_path: Path, config: ModelConfig, legacy: bool
) -> None:
    files = Files(tmp_path, config)
    files.save(legacy=legacy)
    assert files.load() == config
    translator = Translator.from_pretrained(files.out)
    source = padded([[7, 12, 5, 20], [9], [30, 6, 8]])
    for strategy in ("easy-first", "mask-predict"):
        options = DecodingOptions(strategy, iterations=3, length_beam=3)
        assert decode(translator.model, source, options) == decode(files.model, source, options)


def test_words_keep_their_ids_and_languages(files: Files) -> None:
    files.save()
    files.load()
    text = Translator.from_pretrained(files.out).text
    assert (text.source.language, text.target.language, text.joint) == ("ro", "en", False)
    assert text.source.encode("s0 s3 t3") == [NUM_SPECIAL, NUM_SPECIAL + 3, 3]
    assert text.target.tokens([NUM_SPECIAL + 2]) == ["t2"]


def test_half_precision_checkpoints_become_float32(files: Files) -> None:
    files.save(lambda content: content["model"].update({k: v.half() for k, v in content["model"].items()}))
    files.load()
    model = Translator.from_pretrained(files.out).model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert torch.equal(model.words.weight, files.model.words.weight.half().float())


def test_training_statistics_beside_the_weights_do_no_harm(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The authors' trainer pickled its meters, classes of a package that is not needed here."""
    module = ModuleType("fairseq.meters")
    meter = type("AverageMeter", (), {"__module__": "fairseq.meters"})
    monkeypatch.setattr(module, "AverageMeter", meter, raising=False)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "fairseq", ModuleType("fairseq"))
        patch.setitem(sys.modules, "fairseq.meters", module)
        loss = meter()
        loss.__dict__.update(val=1.0, count=3)
        files.save(lambda content: content.update(extra_state={"train_meters": {"train_loss": loss}}))
    assert files.load() == UNEQUAL


def test_the_command(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.save()
    assert main(files.command()) == 0
    assert "1+3 layers, 24 wide, vocabularies of 31 and 38" in capsys.readouterr().out
    kept = json.loads((files.out / "config.json").read_text())
    assert kept["extra"]["imported_from"] == "checkpoint.pt"
    assert str(files.folder) not in (files.out / "config.json").read_text()


# What is refused


def refused(files: Files, capsys: pytest.CaptureFixture[str]) -> str:
    """The message of an import that must fail and leave nothing."""
    before = sorted(path.name for path in files.folder.iterdir())
    assert main(files.command()) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert sorted(path.name for path in files.folder.iterdir()) == before
    return captured.err


def without(name: str) -> Callable[[Checkpoint], object]:
    return lambda content: content["model"].pop(name)


def with_argument(name: str, value: object) -> Callable[[Checkpoint], object]:
    return lambda content: setattr(content["args"], name, value)


BAD_CHECKPOINTS: dict[str, tuple[Callable[[Checkpoint], object], str]] = {
    "no model": (lambda content: content.pop("model"), "not a checkpoint of the authors'"),
    "no arguments": (lambda content: content.pop("args"), "not a checkpoint of the authors'"),
    "arguments of another sort": (
        lambda content: content.update(args=[1]),
        "not a checkpoint of the authors'",
    ),
    "model of another sort": (lambda content: content.update(model=[1]), "not a checkpoint of the authors'"),
    "no tensors": (lambda content: content.update(model={"a": 1}), "not a checkpoint of the authors'"),
    "no length table": (without("encoder.embed_lengths.weight"), "encoder.embed_lengths.weight"),
    "no positions": (without("decoder.embed_positions.weight"), "decoder.embed_positions.weight"),
    "no first layer": (without("encoder.layers.0.fc1.bias"), "encoder.layers.0.fc1.bias"),
    "a projection gone": (
        without("decoder.layers.2.encoder_attn.in_proj_weight"),
        "layers.2.cross_attention",
    ),
    "an unknown tensor": (
        lambda content: content["model"].update({"decoder.layers.0.adapter.weight": torch.ones(2)}),
        "adapter",
    ),
    "a tensor of another shape": (
        lambda content: content["model"].update({"decoder.layers.1.fc2.bias": torch.ones(2)}),
        "should be (24,), is (2,)",
    ),
    "no heads": (
        lambda content: delattr(content["args"], "encoder_attention_heads"),
        "encoder_attention_heads",
    ),
    "heads that do not divide": (with_argument("decoder_attention_heads", 7), "multiple of the heads"),
    "pre-norm": (with_argument("encoder_normalize_before", True), "pre-norm"),
    "joint with unequal tables": (with_argument("share_all_embeddings", True), "joint vocabulary"),
}


@pytest.mark.parametrize(("change", "expected"), BAD_CHECKPOINTS.values(), ids=BAD_CHECKPOINTS)
def test_bad_checkpoints(
    files: Files,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Checkpoint], object],
    expected: str,
) -> None:
    files.save(change)
    assert expected in refused(files, capsys)


def test_a_dictionary_of_another_size_names_both_numbers(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    files.save()
    files.dictionary(files.target, "t", 30)
    said = refused(files, capsys)
    assert f"{files.target} has 25 symbols, with 5 special ones 30" in said
    assert "38 rows" in said


def test_swapped_dictionaries(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    files.save()
    files.source, files.target = files.target, files.source
    assert "has 33 symbols" in refused(files, capsys)


def test_a_joint_checkpoint_with_differing_dictionaries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = Files(tmp_path, CONFIGS["joint"])
    files.save()
    files.dictionary(files.target, "v", 33)
    assert "one joint vocabulary, but" in refused(files, capsys)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("s1", "line 2: expected a symbol and its count"),
        ("s1 many", "line 2: expected a symbol and its count"),
        (" 7", "line 2: expected a symbol and its count"),
        ("s0 7", "'s0'"),
        ("<mask> 7", "'<mask>'"),
    ],
)
def test_bad_dictionaries(files: Files, capsys: pytest.CaptureFixture[str], line: str, expected: str) -> None:
    files.save()
    lines = files.source.read_text().split("\n")
    files.source.write_text("\n".join([lines[0], line, *lines[2:]]))
    assert expected in refused(files, capsys)


def test_missing_files(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"{files.checkpoint} does not exist" in refused(files, capsys)
    files.save()
    files.source.unlink()
    assert str(files.source) in refused(files, capsys)


class Touch:
    """Pickled as a call that would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.system, (f"touch '{self.path}'",)


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_nothing_in_a_checkpoint_is_executed(
    files: Files, capsys: pytest.CaptureFixture[str], legacy: bool
) -> None:
    files.save(lambda content: content.update(extra_state=Touch(files.folder / "touched")), legacy)
    said = refused(files, capsys)
    assert "checkpoint.pt cannot be read" in said
    assert "system" in said
    assert "weights_only" not in said  # torch would advise to load it after all
    assert not (files.folder / "touched").exists()


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])
def test_a_checkpoint_cut_short_anywhere(files: Files, legacy: bool) -> None:
    files.save(legacy=legacy)
    whole = files.checkpoint.read_bytes()
    for keep in [0, 1, 2, 10, 100, *range(0, len(whole), len(whole) // 40)]:
        files.checkpoint.write_bytes(whole[:keep])
        with pytest.raises(UserError, match=r"checkpoint\.pt"):
            files.load()
    assert not files.out.exists()


@pytest.mark.parametrize("content", [b"PK\x03\x04", b"\x80\x02}q\x00.", b"not a checkpoint", b"\x00" * 500])
def test_files_of_another_sort(files: Files, content: bytes) -> None:
    files.checkpoint.write_bytes(content)
    with pytest.raises(UserError, match=r"checkpoint\.pt"):
        files.load()
