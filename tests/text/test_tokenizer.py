"""Encoding and decoding any text returns it unchanged."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import BOS, EOS, MASK, NUM_SPECIAL, PAD, SPECIAL_TOKENS, UNK
from disco_mt.text import moses
from disco_mt.text.pair import TextPair, VocabularyOptions
from disco_mt.text.tokenizer import MINIMUM_BPE_SIZE, Tokenizer

ENGLISH = ["the cat sees the dog", "the dogs see 12 cats", "a cat, a dog; the end </s> <pad>", "the end"] * 5
GERMAN = ["die Katze sieht den Hund", "die Hunde sehen 12 Katzen", "eine Straße, ein Hund; das Ende"] * 5

RAW = Tokenizer.train(ENGLISH + GERMAN, 330, "en")

unicode_text = st.text(st.characters(exclude_categories=["Cs"]))


def spaces_normalised(text: str) -> str:
    return re.sub(" +", " ", text).strip(" ")


@settings(deadline=None, max_examples=500)
@given(unicode_text)
@example("")
@example("   ")
@example(" the  cat ")
@example("\n the cat\t\r\n ")
@example("\x00\x01\x7f\u0085\u2028\u2029\ufeff\ufffd\uffff")
@example("e\u0301 n\u0303o क्षि 👩‍👩‍👧‍👦🇩🇪 שָׁלוֹם مرحبا \u202eabc")
@example("<s> <pad> </s> <unk> <mask> the</s>dog Ġ Ċ")
@example("我喜欢机器翻译。１２３ ½ ²")
def test_any_unicode_text_comes_back(text: str) -> None:
    ids = RAW.encode(text)
    assert RAW.decode(ids) == spaces_normalised(text)
    assert all(NUM_SPECIAL <= index < RAW.vocabulary_size for index in ids)


@settings(deadline=None)
@given(st.lists(st.integers(0, RAW.vocabulary_size - 1)))
def test_whatever_a_model_predicts_can_be_decoded(ids: list[int]) -> None:
    text = RAW.decode(ids)
    text.encode("utf-8")
    assert text == RAW.decode([index for index in ids if index >= NUM_SPECIAL])
    assert len(RAW.tokens(ids)) == len(RAW.pieces(ids)) == len(ids)


def test_a_broken_character_is_decoded_as_a_replacement_character() -> None:
    first_byte, *_ = RAW.encode("語")[1:]  # after the token of the space
    assert RAW.decode([first_byte]) == "\ufffd"


def test_lone_surrogates_become_replacement_characters() -> None:
    assert RAW.decode(RAW.encode("a\ud800b")) == "a\ufffdb"


def test_special_ids_are_skipped_in_text_and_named_in_tokens() -> None:
    ids = [BOS, *RAW.encode("the cat"), MASK, EOS, PAD]
    assert RAW.decode(ids) == "the cat"
    assert RAW.tokens([BOS, PAD, EOS, UNK, MASK]) == list(SPECIAL_TOKENS)
    assert RAW.pieces([EOS]) == ["</s>"]


def test_a_word_is_the_same_token_at_the_start_and_inside() -> None:
    assert RAW.encode("the cat the") == RAW.encode("the") + RAW.encode("cat") + RAW.encode("the")


def test_each_digit_and_punctuation_mark_stands_apart() -> None:
    assert RAW.pieces(RAW.encode("the 12.the"))[:4] == [" the", " 1", "2", "."]


def test_pieces_are_readable_where_tokens_are_not() -> None:
    ids = RAW.encode("Straße")
    assert "".join(RAW.pieces(ids)) == " Straße"
    assert "".join(RAW.tokens(ids)) == "ĠStraÃŁe"


def test_tokens_and_ids_are_inverse() -> None:
    ids = RAW.encode("the cat sees")
    assert RAW.ids(RAW.tokens(ids)) == ids
    assert RAW.ids(["no such token"]) == [UNK]
    assert RAW.tokens([10**6]) == ["<unk>"]


def test_a_batch_is_encoded_like_its_members() -> None:
    texts = ["", "the cat", "Straße  12", "\u2028"]
    assert RAW.encode_batch(texts) == [RAW.encode(text) for text in texts]
    assert RAW.encode_batch([]) == []


def test_training_is_deterministic_and_survives_saving(tmp_path: Path) -> None:
    again = Tokenizer.train(ENGLISH + GERMAN, 330, "en")
    again.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json", "en", "raw")
    for text in [*ENGLISH, "</s> Ünïcode"]:
        assert RAW.encode(text) == again.encode(text) == loaded.encode(text)
        assert loaded.decode(loaded.encode(text)) == text
    assert loaded.vocabulary_size == RAW.vocabulary_size


def test_vocabulary_size_is_an_upper_bound() -> None:
    assert RAW.vocabulary_size <= 330
    assert Tokenizer.train(["a a"], 10_000, "en").vocabulary_size < 300
    assert Tokenizer.train([], MINIMUM_BPE_SIZE, "en").vocabulary_size == MINIMUM_BPE_SIZE


def test_a_vocabulary_too_small_for_all_bytes_is_refused() -> None:
    with pytest.raises(UserError, match=r"vocabulary_size must be at least 261 .*, got 260"):
        Tokenizer.train(ENGLISH, 260, "en")


@pytest.mark.parametrize("text", ["a" * 100_000, " " * 100_000, "x " * 50_000, "\x01" * 100_000])
def test_a_very_long_line_is_encoded(text: str) -> None:
    assert RAW.decode(RAW.encode(text)) == spaces_normalised(text)


def test_moses_words_and_back() -> None:
    tokenizer = Tokenizer.train(ENGLISH, 300, "en", "moses")
    text = "Mr. Smith's well-known \"dog\" didn't bark, did it?"
    assert moses.to_words(text, "en", "moses").split()[:6] == ["Mr.", "Smith", "'s", "well", "@-@", "known"]
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert (
        tokenizer.decode(tokenizer.encode("a & b < c | d [e]")) == "a & b < c | d [e]"
    )  # nothing is escaped


def test_jieba_words_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(cut=lambda text: re.findall(r"[\u4e00-\u9fff]{1,2}|\w+|\s|.", text))
    monkeypatch.setattr(moses, "_jieba", lambda: fake)
    tokenizer = Tokenizer.train(["我喜欢你。"], 300, "zh", "jieba")
    assert moses.to_words("我喜欢 Python。", "zh", "jieba") == "我喜 欢 Python 。"
    assert tokenizer.decode(tokenizer.encode("我喜欢机器翻译。你呢？")) == "我喜欢机器翻译。你呢？"
    assert moses.from_words("我 用 machine learning 。", "zh", "jieba") == "我用machine learning。"


def test_missing_jieba_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jieba", None)
    moses._jieba.cache_clear()
    with pytest.raises(UserError, match=r"pip install disco-mt\[zh\]"):
        Tokenizer.train(["我喜欢你。"], 300, "zh", "jieba")


def test_real_jieba_if_installed() -> None:
    pytest.importorskip("jieba")
    moses._jieba.cache_clear()
    assert moses.to_words("我来到北京清华大学", "zh", "jieba") == "我 来到 北京 清华大学"


def test_pretokenized_text_is_split_at_white_space(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_vocabulary([*SPECIAL_TOKENS, "hel@@", "lo", "."], "en")
    assert tokenizer.encode("  hel@@ lo\tworld . ") == [5, 6, UNK, 7]
    assert tokenizer.decode([BOS, 5, 6, UNK, 7, EOS]) == "hel@@ lo ."
    assert tokenizer.encode("</s> <pad> lo") == [UNK, UNK, 6]  # special ids never come from text
    assert tokenizer.pieces([5, 2]) == ["hel@@", "</s>"]
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json", "en", "pretokenized").encode("lo hel@@") == [6, 5]


def test_pretokenized_vocabulary_is_learnt_by_frequency() -> None:
    tokenizer = Tokenizer.train(["b a b", "c b a"], 7, "en", "pretokenized")
    assert tokenizer.tokens(range(tokenizer.vocabulary_size)) == [*SPECIAL_TOKENS, "b", "a"]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [(["a", "b"], "must start with"), ([*SPECIAL_TOKENS, "a", "b", "a"], "'a' again")],
)
def test_a_wrong_vocabulary_is_refused(tokens: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Tokenizer.from_vocabulary(tokens, "en")


def test_a_wrong_tokenizer_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(UserError, match="cannot read the tokenizer"):
        Tokenizer.load(path, "en", "raw")
    path.write_text("{}")
    with pytest.raises(UserError, match=r"tokenizer\.json is not a tokenizer file"):
        Tokenizer.load(path, "en", "raw")


def pair(vocabulary: str) -> TextPair:
    options = VocabularyOptions(("en", "de"), 300, joint=vocabulary == "joint", processing="moses")
    return TextPair.train(ENGLISH, GERMAN, options)


@pytest.mark.parametrize(
    ("vocabulary", "files"),
    [("joint", {"tokenizer.json"}), ("separate", {"tokenizer.source.json", "tokenizer.target.json"})],
)
def test_a_pair_is_saved_and_loaded(tmp_path: Path, vocabulary: str, files: set[str]) -> None:
    text = pair(vocabulary)
    loaded = TextPair.load(tmp_path, text.save(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == files
    assert (loaded.joint, loaded.source.language, loaded.target.language) == (
        vocabulary == "joint",
        "en",
        "de",
    )
    assert loaded.target.processing == "moses"
    assert loaded.source.encode("the cat.") == text.source.encode("the cat.")
    assert loaded.target.encode("die Katze.") == text.target.encode("die Katze.")
    assert (loaded.source.backend is loaded.target.backend) == loaded.joint


def test_a_joint_vocabulary_knows_both_languages() -> None:
    joint, separate = pair("joint"), pair("separate")
    assert joint.source.encode("Katze") == joint.target.encode("Katze")
    assert len(separate.source.encode("Katze")) > len(separate.target.encode("Katze"))


def test_a_foreign_or_missing_tokenizer_is_refused(tmp_path: Path) -> None:
    description = pair("joint").save(tmp_path)
    RAW.save(tmp_path / "tokenizer.json")
    with pytest.raises(UserError, match=r"tokenizer\.json does not belong to these weights or data"):
        TextPair.load(tmp_path, description)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"tokenizer\.json is missing"):
        TextPair.load(tmp_path, description)
    with pytest.raises(UserError, match="is incomplete"):
        TextPair.load(tmp_path, {"joint": True})


def test_chinese_is_segmented_by_jieba_in_the_papers_way() -> None:
    from disco_mt.text.pair import processing_for

    assert processing_for("zh-Hans", "moses") == processing_for("zh", "moses") == "jieba"
    assert processing_for("de", "moses") == "moses"
    assert processing_for("zh", "raw") == "raw"
