"""SentencePiece models: read from their bytes, and segmenting as sentencepiece itself does.

What sentencepiece says was recorded by interop/marian_expected.py.
"""

from __future__ import annotations

import base64
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers.models import Unigram

from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import BOS, EOS, NUM_SPECIAL, PAD, SPECIAL_TOKENS, UNK
from disco_mt.pins.parse import Pin, may_follow
from disco_mt.text.sentencepiece import UNREACHABLE, SentencePieceModel
from disco_mt.text.tokenizer import Tokenizer
from disco_mt.text.typography import rewrites
from tiny_marian import (
    BYTE,
    SOURCE_PIECES,
    TARGET_PIECES,
    UNUSED,
    USER_DEFINED,
    message,
    model_proto,
    number,
    score,
)

EXPECTED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "interop/marian_expected.json").read_text(encoding="utf-8")
)
CHARSMAP = base64.b64decode(EXPECTED["charsmap"])


def read(folder: Path, content: bytes) -> SentencePieceModel:
    path = folder / "source.spm"
    path.write_bytes(content)
    return SentencePieceModel.read(path)


@pytest.fixture
def model(tmp_path: Path) -> SentencePieceModel:
    return read(tmp_path, model_proto(SOURCE_PIECES, CHARSMAP))


@pytest.fixture
def tokenizer(model: SentencePieceModel) -> Tokenizer:
    return Tokenizer(model.backend(), "en", "sentencepiece")


def test_what_is_read(model: SentencePieceModel) -> None:
    assert model.pieces == tuple((piece, score(piece, place)) for place, piece in enumerate(SOURCE_PIECES))
    assert model.charsmap == CHARSMAP
    assert model.add_dummy_prefix
    assert model.remove_extra_whitespaces
    assert model.worst == min(log_probability for _, log_probability in model.pieces)


@pytest.mark.parametrize(("side", "pieces"), [("source", SOURCE_PIECES), ("target", TARGET_PIECES)])
def test_text_is_segmented_as_by_sentencepiece(tmp_path: Path, side: str, pieces: list[str]) -> None:
    backend = read(tmp_path, model_proto(pieces, CHARSMAP)).backend(["▁the", "cat", "s"])
    tokenizer = Tokenizer(backend, "en", "sentencepiece")
    for text, expected in zip(EXPECTED["texts"], EXPECTED["pieces"][side], strict=True):
        assert tokenizer.tokens(tokenizer.encode(text)) == expected


def test_ids_are_special_tokens_then_pieces_then_the_unreachable(model: SentencePieceModel) -> None:
    tokenizer = Tokenizer(model.backend(["▁le"]), "en", "sentencepiece")
    tokens = tokenizer.tokens(range(tokenizer.vocabulary_size))
    assert tokens == [*SPECIAL_TOKENS, *SOURCE_PIECES, UNREACHABLE + "▁le"]
    assert tokenizer.ids(tokens) == list(range(tokenizer.vocabulary_size))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*"the cat<>/s\0▁ ａ＜猫", *SPECIAL_TOKENS, "\0▁le", "\0cat", "\0<s>"])))
def test_neither_special_nor_unreachable_tokens_come_from_text(parts: list[str]) -> None:
    ids = HOSTILE.encode("".join(parts))
    assert all(id_ == UNK or NUM_SPECIAL <= id_ < NUM_SPECIAL + len(SOURCE_PIECES) for id_ in ids)


def hostile() -> Tokenizer:
    pieces = tuple((piece, score(piece, place)) for place, piece in enumerate(SOURCE_PIECES))
    model = SentencePieceModel(pieces, CHARSMAP, True, True, -20.0)
    return Tokenizer(model.backend(["▁le", "cat", "<s>", "▁"]), "en", "sentencepiece")


HOSTILE = hostile()


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("thecatsdogin.,'-<>/é "), max_size=40))
def test_text_of_known_characters_is_decoded_as_it_was(text: str) -> None:
    assert HOSTILE.decode(HOSTILE.encode(text)) == " ".join(text.split())


def test_pieces_show_their_space_and_decoding_hides_it(model: SentencePieceModel) -> None:
    tokenizer = Tokenizer(model.backend(["▁le"]), "en", "sentencepiece")
    ids = [BOS, *tokenizer.encode("the cats"), tokenizer.vocabulary_size - 1, EOS, PAD]
    assert tokenizer.pieces(ids) == ["<s>", " the", " cat", "s", " le", "</s>", "<pad>"]
    assert tokenizer.decode(ids) == "the cats le"
    assert tokenizer.decode(tokenizer.ids(["▁", "▁the", "▁"])) == "the"
    assert tokenizer.decode([]) == ""


def test_it_survives_saving(model: SentencePieceModel, tmp_path: Path) -> None:
    tokenizer = Tokenizer(model.backend(["▁le"], [("’", "'")]), "en", "sentencepiece")
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json", "en", "sentencepiece")
    for text in [*EXPECTED["texts"], "the cat’s"]:
        assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.decode(loaded.encode("the cat’s")) == "the cat's"


def test_reading_and_writing_changes_no_digit(tmp_path: Path) -> None:
    """The hash of the file is part of every model and dataset."""
    pieces = [(f"▁{number}", struct.unpack("<f", struct.pack("<f", -number / 7))[0]) for number in range(500)]
    backend = Backend(Unigram([*((token, -80.0) for token in SPECIAL_TOKENS), *pieces], UNK))
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    Tokenizer(backend, "en", "sentencepiece").save(one)
    Tokenizer.load(one, "en", "sentencepiece").save(two)
    assert one.read_bytes() == two.read_bytes()


def test_spaces_as_the_model_wants_them(tmp_path: Path) -> None:
    plain = read(tmp_path, model_proto(SOURCE_PIECES, normalizer={3: 0, 4: 0})).backend()
    assert plain.encode(" the  cat").tokens == ["▁the", "▁", "▁cat"]
    assert plain.encode("cat").tokens == ["c", "at"]


def test_pieces_that_go_across_spaces(tmp_path: Path) -> None:
    backend = read(tmp_path, model_proto(["▁the▁cat", *SOURCE_PIECES])).backend()
    assert backend.encode("see the cat").tokens == ["▁", "see", "▁the▁cat"]


def test_a_piece_that_spells_a_special_token_is_none(tmp_path: Path) -> None:
    model = read(tmp_path, model_proto([*SOURCE_PIECES, "<mask>"]))
    assert len(model.pieces) == len(SOURCE_PIECES)


def test_unused_pieces_are_not_used(tmp_path: Path) -> None:
    model = read(tmp_path, model_proto(SOURCE_PIECES, kinds={"▁the": UNUSED}))
    assert model.backend().encode("the").tokens == ["▁th", "e"]


def test_pins(tokenizer: Tokenizer) -> None:
    assert Pin("the cat").ids(tokenizer) == tokenizer.ids(["▁the", "▁cat"])
    assert Pin(".").ids(tokenizer) == tokenizer.ids(["."])
    assert "no token" in str(Pin("猫").ids(tokenizer))
    follows = dict(
        zip(tokenizer.tokens(range(tokenizer.vocabulary_size)), may_follow(tokenizer), strict=True)
    )
    assert follows["▁the"]
    assert follows["."]
    assert not follows["ing"]


# Typography


def test_typographic_characters_are_rewritten_only_where_needed(model: SentencePieceModel) -> None:
    known = {piece for piece, _ in model.pieces if len(piece) == 1} | {" "}
    found = dict(rewrites(known, model.backend().normalizer.normalize_str))
    assert found["’"] == "'"
    assert found["–"] == "-"
    assert found["\u2009"] == " "
    assert "“" not in found  # there is no "
    assert "\u00a0" not in found  # the model does it itself
    assert "…" not in found
    assert "’" not in dict(rewrites(known | {"’"}, str))
    tokenizer = Tokenizer(model.backend((), list(found.items())), "en", "sentencepiece")
    assert tokenizer.encode("the\u2009cat’s – dog") == tokenizer.encode("the cat's - dog")


# What is refused

BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not a SentencePiece model: it has no pieces"),
    "text": (b"the cat sees the dog\n", "is not a SentencePiece model"),
    "cut off": (model_proto(SOURCE_PIECES)[:500], "is not a SentencePiece model"),
    "no end to a number": (b"\xff" * 20, "in the middle of a number"),
    "a field that is too long": (message(1, b"abc")[:-1], "in the middle of a field"),
    "an unknown wire type": (b"\x0b", "no wire type 3"),
    "a piece without text": (message(1, number(3, 1)), "a piece lacks its text"),
    "a piece that is a number": (number(1, 7), "a field is a number instead of a message"),
    "a piece that is not UTF-8": (message(1, message(1, b"\xff")), "is not a SentencePiece model"),
    "a piece twice": (model_proto([*SOURCE_PIECES, "▁the"]), "it has the piece '▁the' twice"),
    "a score that is no number": (
        message(1, message(1, b"a") + b"\x15" + struct.pack("<f", float("nan"))),
        "the score of 'a' is nan",
    ),
    "BPE": (model_proto(SOURCE_PIECES, trainer={3: 2}), "only unigram .* of type BPE"),
    "characters": (model_proto(SOURCE_PIECES, trainer={3: 4}), "of type character"),
    "a type to come": (model_proto(SOURCE_PIECES, trainer={3: 9}), "of type number 9"),
    "byte fallback": (model_proto(SOURCE_PIECES, trainer={3: 1, 35: 1}), "byte fallback"),
    "byte pieces": (model_proto(SOURCE_PIECES, kinds={"s": BYTE}), "byte fallback"),
    "user-defined": (model_proto(SOURCE_PIECES, kinds={"s": USER_DEFINED}), "user-defined symbols"),
    "suffixes": (model_proto(SOURCE_PIECES, trainer={24: 1}), "treat_whitespace_as_suffix"),
    "plain spaces": (model_proto(SOURCE_PIECES, normalizer={5: 0}), "escape_whitespaces"),
    "denormaliser": (model_proto(SOURCE_PIECES, denormalizer=b"rules"), "a denormaliser"),
    "broken rules": (model_proto(SOURCE_PIECES, b"rules"), "normalisation rules"),
}


@pytest.mark.parametrize(("content", "why"), BAD.values(), ids=BAD)
def test_a_bad_model_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(UserError, match=why):
        read(tmp_path, content)


def test_a_missing_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read the SentencePiece model"):
        SentencePieceModel.read(tmp_path / "source.spm")


# A real model, on real text


@pytest.mark.skipif("DISCO_MODELS" not in os.environ, reason="DISCO_MODELS names no folder of models")
def test_opus_mt_is_read() -> None:
    model = SentencePieceModel.read(Path(os.environ["DISCO_MODELS"], "opus-mt-en-fr", "source.spm"))
    tokens = model.backend().encode("The ﬁrst café…  isn't open – yet.").tokens
    assert tokens == ["▁The", "▁first", "▁café", "...", "▁isn", "'", "t", "▁open", "▁–", "▁yet", "."]
