"""Import of MarianMT models: a tiny one must translate as transformers does; what does not fit is refused.

What transformers says was recorded by marian_expected.py.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from disco_mt.cli import main
from disco_mt.core.special_tokens import BOS, EOS, MASK, NUM_SPECIAL, PAD, UNK
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.engine.select import EngineOptions
from disco_mt.interop.marian import MarianOptions, import_marian
from disco_mt.nn import find
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.text.sentencepiece import UNREACHABLE
from disco_mt.translator import Translator
from tiny import padded
from tiny_marian import (
    ABSENT,
    CONFIG,
    SOURCE_PIECES,
    TARGET_PIECES,
    VOCABULARY,
    model_proto,
    tensors,
    write_marian,
)

EXPECTED: dict[str, Any] = json.loads(
    Path(__file__).with_name("marian_expected.json").read_text(encoding="utf-8")
)
CHARSMAP = base64.b64decode(EXPECTED["charsmap"])
MODELS = {model["name"]: model for model in EXPECTED["models"]}
EXACT = MarianOptions(exact_tokenizer=True)
GREEDY = DecodingOptions(beam=1)


@pytest.fixture
def original(tmp_path: Path) -> Path:
    return write_marian(tmp_path / "opus", CHARSMAP)


def imported(original: Path, options: MarianOptions = EXACT) -> Translator:
    out = original.parent / "imported"
    import_marian(original, "opus", out, options)
    return Translator.from_pretrained(out, EngineOptions(engine="reference"))


def our_ids(translator: Translator, tokens: list[str]) -> list[int]:
    """Target tokens of the original as our ids: those that target.spm lacks have other names here."""
    target = translator.text.target
    names = [t if target.ids([t]) != [UNK] or t == "<unk>" else UNREACHABLE + t for t in tokens]
    return target.ids(names)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_it_translates_as_the_original(tmp_path: Path, model: dict[str, Any]) -> None:
    translator = imported(write_marian(tmp_path / "opus", CHARSMAP, model["config"]))
    for expected in model["translations"]:
        ids = translator.text.source.encode(expected["source"])
        assert translator.text.source.tokens([*ids, EOS]) == expected["source_tokens"]
        for kind in ("", "given_"):
            tokens = expected["given" if kind else "tokens"]
            found = log_probabilities(translator, ids, our_ids(translator, tokens))
            wanted = torch.tensor(expected[f"{kind}log_probabilities"])
            torch.testing.assert_close(found, wanted, atol=2e-4, rtol=0)


@torch.inference_mode()
def log_probabilities(translator: Translator, source: list[int], target: list[int]) -> Tensor:
    model = translator.model
    assert isinstance(model, Autoregressive)
    hidden = model.decode(torch.tensor([target]), model.encode(padded([source])))
    return model.word_log_probs(hidden[0], torch.tensor(target))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_greedy_search_finds_the_same_words(tmp_path: Path, model: dict[str, Any]) -> None:
    translator = imported(write_marian(tmp_path / "opus", CHARSMAP, model["config"]))
    for expected in model["translations"]:
        ids = translator.text.source.encode(expected["source"])
        found = translator.translate_ids([ids], DecodingOptions(beam=1))[0]
        wanted = our_ids(translator, expected["tokens"])
        if wanted[-1:] == [EOS]:
            assert found.text == expected["text"]
        assert translator.text.target.ids(found.tokens)[: len(wanted)] == [
            id_ for id_ in wanted if id_ != EOS
        ]


def test_what_the_config_becomes(original: Path) -> None:
    config = import_marian(original, "opus", original.parent / "out", EXACT)
    assert config == ModelConfig(
        kind="autoregressive",
        width=16,
        encoder=Stack(layers=2, heads=2, hidden=20),
        decoder=Stack(layers=3, heads=4, hidden=12),
        dropout=0.1,
        norm_epsilon=1e-5,
        activation="silu",
        positions="marian",
        scale_embeddings=True,
        output_bias=True,
        tying="decoder",
        max_source=40,
        max_target=40,
        source_vocabulary=NUM_SPECIAL + len(SOURCE_PIECES),
        target_vocabulary=NUM_SPECIAL + len(VOCABULARY) - 3 + sum(piece in ABSENT for piece in TARGET_PIECES),
    )


def test_where_the_rows_come_from(original: Path) -> None:
    translator = imported(original)
    table = load_file(original / "model.safetensors")["model.shared.weight"]
    bias = load_file(original / "model.safetensors")["final_logits_bias"][0]
    source, target = translator.model.encoder.words.weight, translator.model.words.weight
    output_bias = translator.model.output_bias
    assert output_bias is not None
    rows = {BOS: VOCABULARY["<pad>"], EOS: VOCABULARY["</s>"], UNK: VOCABULARY["<unk>"]}
    rows[translator.text.target.ids(["▁chat"])[0]] = VOCABULARY["▁chat"]
    rows[translator.text.target.ids([UNREACHABLE + "▁sees"])[0]] = VOCABULARY["▁sees"]
    for id_, row in rows.items():
        assert torch.equal(target[id_], table[row])
        assert output_bias[id_] == bias[row]
    for id_ in (PAD, MASK):
        assert not target[id_].any()
        assert not source[id_].any()
        assert output_bias[id_] == -100
    absent = translator.text.source.ids(["|"])[0]
    assert torch.equal(source[absent], table[VOCABULARY["<unk>"]])
    assert output_bias[translator.text.target.ids(["|"])[0]] == -100
    assert translator.text.target.decode(our_ids(translator, ["▁sees", "▁le"])) == "sees le"


def test_by_default_pieces_without_a_row_are_unknown_and_quotes_plain(original: Path) -> None:
    translator = imported(original, MarianOptions())
    assert translator.text.source.ids(["|", "▁|"]) == [UNK, UNK]
    assert translator.text.source.vocabulary_size == NUM_SPECIAL + len(SOURCE_PIECES) - 2
    assert translator.text.target.vocabulary_size == NUM_SPECIAL + len(VOCABULARY) - 3
    assert translator.text.source.encode("the cat’s") == translator.text.source.encode("the cat's")
    assert translator.text.target.encode("l’été") == translator.text.target.encode("l'été")


def test_half_precision_stays(original: Path) -> None:
    halved = {name: tensor.half() for name, tensor in tensors_of(original).items()}
    save_file(halved, original / "model.safetensors")
    model = imported(original).model
    kept = load_file(original.parent / "imported/model.safetensors")
    assert {tensor.dtype for tensor in kept.values()} == {torch.float16}
    assert torch.equal(model.words.weight[EOS], halved["model.shared.weight"][0].float())


def test_pickled_weights_with_all_that_transformers_saves(original: Path) -> None:
    before = imported(original).translate("the cat", GREEDY)
    content = tensors_of(original)
    for name in ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"):
        content[name] = content["model.shared.weight"]
    content["model.encoder.embed_positions.weight"] = torch.ones(40, 16)
    torch.save(content, original / "pytorch_model.bin")
    (original / "model.safetensors").unlink()
    import_marian(original, "opus", original.parent / "again", EXACT)
    again = Translator.from_pretrained(original.parent / "again", EngineOptions(engine="reference"))
    assert again.translate("the cat", GREEDY) == before


def test_without_an_output_bias(original: Path) -> None:
    content = tensors_of(original)
    del content["final_logits_bias"]
    save_file(content, original / "model.safetensors")
    bias = imported(original).model.output_bias
    assert bias is not None
    assert not bias[EOS : EOS + 2].any()


def tensors_of(original: Path) -> dict[str, Tensor]:
    return load_file(original / "model.safetensors")


# What the model cannot read


def test_it_is_copied(original: Path) -> None:
    translator = imported(original, MarianOptions())
    texts = ["the cat", "🦄 the cat", "the cat 🦄", "🦄", "a|b", "the cat"]
    plain, *found = translator.translate(texts, GREEDY, DecodeRequest(batch_tokens=1))
    assert plain.copied == ()
    assert found[0].text == f"🦄 {plain.text}"
    assert found[1].text == f"{plain.text} 🦄"
    assert found[0].copied == found[1].copied == ("🦄",)
    assert (found[2].text, found[2].copied, found[2].steps) == ("🦄", ("🦄",), 0)
    assert found[3].copied == ("|",)
    assert found[4] == plain


def test_it_is_copied_sentence_by_sentence(original: Path) -> None:
    translator = imported(original, MarianOptions())
    found = translator.translate("The cat sees 🦄\n🦄. 🦄🦄 A dog.", GREEDY, split=True)
    assert found.copied == tuple(each for part in found.parts for each in part.copied)
    assert "".join(found.copied).count("🦄") == found.text.count("🦄") == 4
    assert "\n" not in found.text


def test_it_is_copied_where_a_sentence_is_cut_up(original: Path) -> None:
    found = imported(original, MarianOptions()).translate("the 🦄 cat " * 30, GREEDY)
    assert len(found.parts) > 1
    assert found.text.count("🦄") == len(found.copied[0].replace(" ", "")) == 30


def test_the_command_says_so_once(original: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(original)) == 0
    capsys.readouterr()
    translate = ["translate", "--model", str(original.parent / "out"), "--engine", "reference", "--json"]
    assert main([*translate, "the 🦄", "🦄🦄"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "disco: 3 characters were copied: the model does not know them\n"
    assert [json.loads(line)["copied"] for line in captured.out.splitlines()] == [["🦄"], ["🦄🦄"]]


# The command


def command(original: Path, *more: str) -> list[str]:
    return ["import-marian", "--model", str(original), "--out", str(original.parent / "out"), *more]


def test_the_command(original: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(original, "--exact-tokenizer")) == 0
    assert "2+3 layers, 16 wide, vocabularies of 47 and 55" in capsys.readouterr().out
    out = original.parent / "out"
    kept = (out / "config.json").read_text()
    assert json.loads(kept)["extra"]["imported_from"] == "opus"
    assert str(original.parent) not in kept + (out / "README.md").read_text()
    card = (out / "README.md").read_text()
    assert "translates en into fr" in card
    assert "It keeps the licence of its origin" in card
    assert main(["translate", "--model", str(out), "the cat", "--beam", "1", "--engine", "reference"]) == 0


def test_languages_may_be_given(original: Path) -> None:
    (original / "tokenizer_config.json").unlink()
    assert main(command(original, "--source-language", "de", "--target-language", "nl")) == 0
    text = Translator.from_pretrained(original.parent / "out", EngineOptions(engine="reference")).text
    assert (text.source.language, text.target.language) == ("de", "nl")


def test_a_model_from_the_hub(original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []

    def fetch(name: str, files: tuple[str, ...]) -> Path:
        asked.append((name, files))
        return original

    monkeypatch.setattr(find, "_from_hub", fetch)
    arguments = command(original)
    arguments[2] = "Helsinki-NLP/opus-mt-en-fr"
    assert main(arguments) == 0
    assert asked == [(arguments[2], ("*.json", "*.safetensors", "pytorch_model.bin", "*.spm"))]
    kept = json.loads((original.parent / "out/config.json").read_text())
    assert kept["extra"]["imported_from"] == "Helsinki-NLP/opus-mt-en-fr"


# What is refused


def refused(original: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    """The message of an import that must fail and leave nothing."""
    before = sorted(path.name for path in original.parent.iterdir())
    assert main(command(original, *more)) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert sorted(path.name for path in original.parent.iterdir()) == before
    return captured.err


def edit(file: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        content = json.loads((folder / file).read_text())
        change(content)
        (folder / file).write_text(json.dumps(content))

    return apply


def configured(**changes: object) -> Callable[[Path], object]:
    return edit("config.json", lambda config: config.update(changes))


def without(file: str) -> Callable[[Path], object]:
    return lambda folder: (folder / file).unlink()


def written(file: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / file).write_bytes(content)


def with_tensors(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        content = tensors_of(folder)
        change(content)
        save_file(content, folder / "model.safetensors")

    return apply


def native(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "model.npz").write_bytes(b"PK")


def pickled(content: object) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        torch.save(content, folder / "pytorch_model.bin")

    return apply


K_PROJ = "model.decoder.layers.2.encoder_attn.k_proj.weight"

BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "no config": (without("config.json"), "config.json is missing"),
    "Marian's own format": (native, "has a model of Marian itself (model.npz)"),
    "another model": (configured(model_type="t5"), "model_type should be 'marian', is 't5'"),
    "a Disco model": (edit("config.json", dict.clear), "model_type should be 'marian', is 'none'"),
    "config is no JSON": (written("config.json", b"{"), "cannot be read as JSON"),
    "config is a list": (written("config.json", b"[]"), "must be a JSON object, found list"),
    "separate vocabularies": (configured(share_encoder_decoder_embeddings=False), "separate vocabularies"),
    "untied": (configured(tie_word_embeddings=False), "output layer is not tied"),
    "pre-norm": (configured(normalize_before=True), "normalize_before is set"),
    "activation": (
        configured(activation_function="gelu_new"),
        "one of swish, silu, gelu, relu, got 'gelu_new'",
    ),
    "no width": (configured(d_model=None), "d_model must be a whole number, got None"),
    "a width of another sort": (configured(d_model="16"), "d_model must be a whole number, got '16'"),
    "a dropout of another sort": (configured(dropout="much"), "dropout must be a number, got 'much'"),
    "too much dropout": (configured(dropout=1.5), "model.dropout must be at least 0 and below 1"),
    "another width": (configured(d_model=24), "should be (45, 24), is (45, 16)"),
    "heads that do not divide": (configured(encoder_attention_heads=3), "multiple of the heads"),
    "fewer layers": (configured(decoder_layers=2), "layers.2"),
    "more layers": (configured(encoder_layers=3), "encoder.layers.2"),
    "another hidden width": (configured(encoder_ffn_dim=21), "should be (21"),
    "another vocabulary size": (configured(vocab_size=9), "config.json: vocab_size has 9 entries, but"),
    "no such EOS": (configured(eos_token_id=999), "eos_token_id is 999, which vocab.json does not have"),
    "no vocabulary": (without("vocab.json"), "vocab.json is missing"),
    "a vocabulary of another size": (
        edit("vocab.json", lambda vocabulary: vocabulary.update(more=len(vocabulary))),
        f"vocab.json has {len(VOCABULARY) + 1} entries, but model.shared.weight has {len(VOCABULARY)} rows",
    ),
    "an id twice": (edit("vocab.json", lambda v: v.update({"s": 1})), "one of the ids from 0 on"),
    "ids that are none": (edit("vocab.json", lambda v: v.update({"s": "s"})), "one of the ids from 0 on"),
    "ids that are fractions": (edit("vocab.json", lambda v: v.update({"s": 1.0})), "one of the ids from 0"),
    "no <unk>": (edit("vocab.json", lambda v: v.update({"<UNK>": v.pop("<unk>")})), "has no <unk>"),
    "several target languages": (
        edit("vocab.json", lambda v: v.update({">>fra<<": v.pop("▁le"), ">>ita<<": v.pop("▁un")})),
        "translates into several languages (fra, ita)",
    ),
    "no source.spm": (without("source.spm"), "source.spm is missing"),
    "no target.spm": (without("target.spm"), "target.spm is missing"),
    "a broken source.spm": (written("source.spm", b"abc"), "source.spm is not a SentencePiece model"),
    "BPE": (written("target.spm", model_proto(TARGET_PIECES, trainer={3: 2})), "of type BPE"),
    "the tokenizer of another model": (
        written("target.spm", model_proto(["▁der", "▁Hund", "▁sieht", "▁", "a"])),
        "target.spm does not belong to this model: only 2 of its 5 pieces are in vocab.json",
    ),
    "no languages": (without("tokenizer_config.json"), "give it with --source-language"),
    "half the languages": (
        written("tokenizer_config.json", b'{"source_lang": "en"}'),
        "give it with --target-language",
    ),
    "no weights": (without("model.safetensors"), "neither model.safetensors nor pytorch_model.bin is in it"),
    "broken weights": (written("model.safetensors", b"abc"), "model.safetensors cannot be read"),
    "broken pickle": (
        lambda folder: (without("model.safetensors")(folder), written("pytorch_model.bin", b"abc")(folder)),
        "pytorch_model.bin cannot be read",
    ),
    "a pickle with code": (
        pickled({"model": Path("x")}),
        "it is damaged, or has more than tensors",
    ),
    "a pickle of another sort": (pickled([1, 2]), "must have tensors by name"),
    "no embeddings": (with_tensors(lambda t: t.pop("model.shared.weight")), "no tensor model.shared.weight"),
    "untied copies": (
        with_tensors(lambda t: t.update({"lm_head.weight": t["model.shared.weight"] + 1})),
        "lm_head.weight differs from model.shared.weight",
    ),
    "a tensor gone": (with_tensors(lambda t: t.pop(K_PROJ)), "layers.2.cross_attention.key_value.weight"),
    "an unknown tensor": (with_tensors(lambda t: t.update(adapter=torch.ones(1))), "unknown ['adapter']"),
    "another shape": (
        with_tensors(lambda t: t.update({K_PROJ: torch.ones(3, 16)})),
        "layers.2.cross_attention",
    ),
    "a short bias": (
        with_tensors(lambda t: t.update(final_logits_bias=torch.ones(1, 7))),
        "final_logits_bias has 7 entries",
    ),
}


@pytest.mark.parametrize(("change", "why"), BAD.values(), ids=BAD)
def test_bad_models(
    original: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Path], object], why: str
) -> None:
    change(original)
    assert why in refused(original, capsys)


def test_no_directory_and_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "opus"
    file.write_text("x")
    assert "is not a directory" in refused(file, capsys)
    assert "there is no model" in refused(tmp_path / "missing", capsys)


def test_an_output_that_exists(original: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (original.parent / "out").mkdir()
    assert "already exists" in refused(original, capsys)


def test_tiny_weights_are_all_different() -> None:
    """Else a mix-up of two tensors might not show."""
    found = tensors(CONFIG)
    assert len({tuple(tensor.flatten()[:4].tolist()) for tensor in found.values()}) == len(found)
