"""Pruned vocabularies: which pieces and rows are kept, and errors."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest
import torch

from disco_mt.cli import main
from disco_mt.core.special_tokens import NUM_SPECIAL, SPECIAL_TOKENS, UNK
from disco_mt.decoding.options import DecodingOptions
from disco_mt.engine.select import EngineOptions
from disco_mt.interop.marian import MarianOptions, import_marian
from disco_mt.interop.prune_vocabulary import PruneReport, prune_vocabulary
from disco_mt.nn.directory import read_config
from disco_mt.text.sentencepiece import UNREACHABLE
from disco_mt.translator import Translator
from tiny_marian import LETTERS, write_marian

REFERENCE = EngineOptions(engine="reference")
CHARSMAP = base64.b64decode(
    json.loads(Path(__file__).with_name("marian_expected.json").read_text(encoding="utf-8"))["charsmap"]
)
ENGLISH = ["the cat sees the dog", "the cat and a dog", "the cats", "a dog's bone."]
FRENCH = ["le chat voit le chien", "le chat et un chien", "les chats"]
SINGLE = {*LETTERS, "▁", "▁a", "▁l", "▁<"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    out = tmp_path / "model"
    import_marian(write_marian(tmp_path / "opus", CHARSMAP), "opus", out, MarianOptions())
    return out


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "news.en", tmp_path / "news.fr.gz"
    source.write_text("\n".join(ENGLISH) + "\n", encoding="utf-8")
    target.write_bytes(gzip.compress("\n".join(FRENCH).encode()))
    return source, target


def pruned(model: Path, texts: tuple[Path, Path], *sizes: int) -> tuple[Translator, PruneReport]:
    out = model.parent / "pruned"
    report = prune_vocabulary(model, texts[:1], texts[1:], out, *sizes)
    return Translator.from_pretrained(out, REFERENCE), report


def vocabularies(translator: Translator) -> tuple[list[str], list[str]]:
    return translator.text.vocabularies()


def test_what_is_used_stays_and_so_do_all_characters(model: Path, texts: tuple[Path, Path]) -> None:
    small, report = pruned(model, texts)
    source, target = vocabularies(small)
    assert tuple(source[:NUM_SPECIAL]) == tuple(target[:NUM_SPECIAL]) == SPECIAL_TOKENS
    everything = vocabularies(Translator.from_pretrained(model, REFERENCE))
    assert set(source) == {*SPECIAL_TOKENS, "▁the", "▁cat", "▁dog", "▁sees", "▁and", *SINGLE} & set(
        everything[0]
    )
    assert set(target) == {*SPECIAL_TOKENS, "▁le", "▁chat", "▁chien", "▁voit", "▁un", "▁et", *SINGLE} & set(
        everything[1]
    )
    assert not any(token.startswith(UNREACHABLE) for token in target)
    assert report.source.tokens_kept == report.target.tokens_kept == 1
    assert (report.source.size, report.target.size) == (len(source), len(target))


def test_the_most_frequent_pieces_stay(model: Path, texts: tuple[Path, Path]) -> None:
    characters = len(SPECIAL_TOKENS) + len([t for t in vocabularies_of(model)[0] if t in SINGLE])
    small, report = pruned(model, texts, characters + 2)
    source, _ = vocabularies(small)
    assert len(source) == report.source.size == characters + 2
    assert {"▁the", "▁cat"} <= set(source)
    assert "▁dog" not in source
    assert small.text.source.tokens(small.text.source.encode("the dog")) == ["▁the", "▁", "d", "o", "g"]
    assert report.source.tokens_kept < 1
    assert report.source.pieces_per_word > report.source.pieces_per_word_before


def vocabularies_of(model: Path) -> tuple[list[str], list[str]]:
    return vocabularies(Translator.from_pretrained(model, REFERENCE))


def test_nothing_becomes_unknown(model: Path, texts: tuple[Path, Path]) -> None:
    before = Translator.from_pretrained(model, REFERENCE).text.source
    smallest = len([t for t in vocabularies_of(model)[0] if t in SINGLE or t in SPECIAL_TOKENS])
    small, _ = pruned(model, texts, smallest)
    for text in (*ENGLISH, "<s> voit-il the été", "seeing, thing"):
        assert UNK not in before.encode(text)
        ids = small.text.source.encode(text)
        assert UNK not in ids
        assert small.text.source.decode(ids) == before.decode(before.encode(text))


def test_rows_go_with_their_pieces(model: Path, texts: tuple[Path, Path]) -> None:
    whole, (small, _) = Translator.from_pretrained(model, REFERENCE), pruned(model, texts)
    for name, side in (("encoder.words.weight", 0), ("words.weight", 1), ("output_bias", 1)):
        ids = (whole.text.source, whole.text.target)[side].ids(vocabularies(small)[side])
        assert torch.equal(small.model.state_dict()[name], whole.model.state_dict()[name][ids])


def test_text_of_kept_pieces_is_encoded_to_the_same_states(model: Path, texts: tuple[Path, Path]) -> None:
    whole, (small, _) = Translator.from_pretrained(model, REFERENCE), pruned(model, texts)
    ids = [translator.text.source.encode(ENGLISH[0]) for translator in (whole, small)]
    states = [
        translator.model.encoder(torch.tensor([each]))[0]
        for translator, each in zip((whole, small), ids, strict=True)
    ]
    torch.testing.assert_close(*states)
    assert small.translate_ids(ids[1:], DecodingOptions(beam=2))[0].tokens


def test_provenance(model: Path, texts: tuple[Path, Path]) -> None:
    pruned(model, texts)
    directory = read_config(model.parent / "pruned")
    assert directory.extra["imported_from"] == "opus"
    assert directory.extra["pruned"]["source"]["tokens"] == 23
    assert directory.extra["pruned"]["source"]["words"] == 15
    card = (model.parent / "pruned/README.md").read_text()
    assert "It keeps the licence of its origin" in card
    assert "100.00 % of the text's tokens unchanged" in card
    assert str(model.parent) not in card + json.dumps(directory.extra)


def command(model: Path, texts: tuple[Path, Path], *more: str) -> list[str]:
    files = ["--source", str(texts[0]), "--target", str(texts[1])]
    return ["prune-vocabulary", "--model", str(model), *files, "--out", str(model.parent / "out"), *more]


def test_the_command(model: Path, texts: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    again = str(texts[0])
    arguments = command(model, texts, "--target-size", "40", "--source", again, again)
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "the text has 46 tokens of" in said
    assert "target: 40 of" in said
    assert "pieces cover 99 % of them" in said


# What is refused


def refused(capsys: pytest.CaptureFixture[str], model: Path, arguments: list[str]) -> str:
    before = sorted(path.name for path in model.parent.iterdir())
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert sorted(path.name for path in model.parent.iterdir()) == before
    return captured.err


def test_a_size_too_small_for_the_characters(
    model: Path, texts: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, model, command(model, texts, "--source-size", "12"))
    assert "--source-size must be at least 36 (5 special tokens and 31 single characters), got 12" in said


def test_text_of_another_script(
    model: Path, texts: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    texts[0].write_text("猫猫犬 the cat", encoding="utf-8")
    said = refused(capsys, model, command(model, texts))
    assert "does not know 3 of the 9 characters of the source text (news.en)" in said
    assert "without the letters of the text" in said


@pytest.mark.parametrize("content", ["", "\n\n", "  \n"])
def test_empty_text(
    model: Path, texts: tuple[Path, Path], capsys: pytest.CaptureFixture[str], content: str
) -> None:
    texts[0].write_text(content)
    assert "the source text (news.en) is empty" in refused(capsys, model, command(model, texts))


def test_a_missing_text(model: Path, texts: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    texts[0].unlink()
    assert "news.en" in refused(capsys, model, command(model, texts))


def test_a_bpe_model(model: Path, texts: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = command(model, texts)
    arguments[2] = "en-de"
    assert "the source vocabulary is not one of SentencePiece" in refused(capsys, model, arguments)
