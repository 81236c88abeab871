"""All codes of Chinese are treated as Chinese, in text and in scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from disco_mt.data import prepare
from disco_mt.evaluation.quality import bleu_tokenizer, measure
from disco_mt.text.languages import base_language, is_chinese, is_spaceless
from disco_mt.text.moses import from_words, to_words
from disco_mt.text.pair import processing_for

CHINESE = ("zh", "ZH", "zh-Hans", "zh_TW", "cmn", "cmn-Hant", "cmn_Hans_CN", "zho", "zho_Hans", "chi")


@pytest.mark.parametrize("code", CHINESE)
def test_every_code_of_chinese(code: str) -> None:
    assert is_chinese(code)
    assert is_spaceless(code)
    assert bleu_tokenizer(code) == "zh"
    assert processing_for(code, "moses") == "jieba"
    scored = measure(["我喜欢猫。"], [["我喜欢狗。"]], code, paper_bleu=True)
    assert "tok:zh" in scored.bleu_signature
    assert scored.tokenised_bleu is None


def test_other_languages() -> None:
    assert [base_language(code) for code in ("de-AT", "fr_CA", "jpn", "eng")] == ["de", "fr", "ja", "eng"]
    assert not any(is_chinese(code) for code in ("ja", "de", "chm", "zhx"))
    assert is_spaceless("ja-JP")
    assert not is_spaceless("de")


@pytest.mark.parametrize(
    "text",
    [
        "超过1,000万人感染了COVID-19。",
        "价格是$1,234.56，请发e-mail给我。",
        "会议在3:30开始，共25%的人参加。",
        "请写信给user@example.com。",
        "他说：“你好。”",
        "我用Python 3.11编程。",
        "我们在A/B座见面。",
        "Hello, world!你好。",
    ],
)
def test_chinese_comes_back_from_jieba(text: str) -> None:
    pytest.importorskip("jieba")
    assert from_words(to_words(text, "zh", "jieba"), "zh", "jieba") == text


def test_words_split_by_jieba_are_sampled_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer lines of raw Chinese are sampled, because its clauses never recur."""
    path = tmp_path / "zh"
    path.write_text("我们昨天去看了一场非常好看的电影然后回家\n" * 40, encoding="utf-8")
    monkeypatch.setattr(prepare, "SAMPLE", 30)
    assert prepare._sample_size(path, 40, split=True) == 30
    assert prepare._sample_size(path, 40, split=False) == 3
