"""Quality numbers against sacreBLEU itself and against small cases counted by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import sacrebleu

from disco_mt.core.errors import UserError
from disco_mt.evaluation import quality

HYPOTHESES = [
    "Der Hund schläft heute im Garten.",
    "Ich habe gestern ein neues Buch gekauft.",
    "Kannst du mir bitte bitte helfen?",
    "Wir fahren am Montag nach Berlin.",
]
OTHER = [
    "Der Hund schläft im Garten.",
    "Ich habe gestern gestern ein Buch.",
    "Kannst du mir helfen?",
    "Wir gehen Montag nach nach Berlin.",
]
REFERENCES = [
    ["Der Hund schläft heute im Garten.", "Heute schläft der Hund im Garten."],
    ["Gestern habe ich ein neues Buch gekauft."],
    ["Kannst du mir bitte helfen?", "Können Sie mir bitte helfen?", "Hilf mir bitte!"],
    ["Am Montag fahren wir nach Berlin."],
]


def test_uneven_references_score_as_in_sacrebleu():
    streams = [
        [lines[0] for lines in REFERENCES],
        [REFERENCES[0][1], None, REFERENCES[2][1], None],
        [None, None, REFERENCES[2][2], None],
    ]
    bleu, chrf = sacrebleu.metrics.BLEU(tokenize="13a"), sacrebleu.metrics.CHRF()
    expected_bleu = bleu.corpus_score(HYPOTHESES, streams)
    result = quality.measure(HYPOTHESES, REFERENCES, "de")
    assert result.bleu == expected_bleu.score
    assert result.chrf == chrf.corpus_score(HYPOTHESES, streams).score
    assert result.length_ratio == expected_bleu.ratio
    assert "nrefs:var" in result.bleu_signature
    assert "tok:13a" in result.bleu_signature
    assert result.chrf_signature == str(chrf.get_signature())
    assert result.tokenised_bleu is None


def test_a_missing_reference_is_not_an_empty_one():
    padded = [[*lines, *[""] * (3 - len(lines))] for lines in REFERENCES]
    short = [hypothesis.split()[0] for hypothesis in HYPOTHESES]
    assert (
        quality.measure(short, REFERENCES, "de").length_ratio
        < quality.measure(short, padded, "de").length_ratio
    )


def test_perfect_output():
    result = quality.measure([lines[-1] for lines in REFERENCES], REFERENCES, "de", paper_bleu=True)
    assert result.bleu == pytest.approx(100)
    assert result.chrf == pytest.approx(100)
    assert result.tokenised_bleu == pytest.approx(100)
    assert result.length_ratio == 1
    assert result.repetition_rate == 0
    assert result.sentences == 4


def test_bleu_counted_by_hand():
    # 5 words against 6: matches 5/5, 4/4, 3/3, 2/2 and a brevity penalty of exp(1 - 6/5)
    result = quality.measure(["a b c d e"], [["a b c d e f"]], "en")
    assert result.bleu == pytest.approx(100 * math.exp(1 - 6 / 5))
    assert result.length_ratio == pytest.approx(5 / 6)


@pytest.mark.parametrize("language", ["zh", "zh-CN", "zh_Hans"])
def test_chinese_is_scored_by_character(language):
    result = quality.measure(["我今天去北京"], [["我今天去了北京"]], language, paper_bleu=True)
    assert "tok:zh" in result.bleu_signature
    assert result.length_ratio == pytest.approx(6 / 7)
    assert result.tokenised_bleu is None  # the paper uses sacreBLEU here


def test_japanese_is_never_taken_for_one_word():
    assert quality.measure(["今日は東京に行きます"], [["今日東京に行きます"]], "ja").bleu > 20


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("my my activities", 100 / 3),
        ("my my my", 200 / 3),
        ("my, my ...", 0.0),  # a comma between; dots are no words
        ("My my", 0.0),
        ("", 0.0),
    ],
)
def test_repetition_rate(text, rate):
    assert quality.repetition_rate([text], "en") == pytest.approx(rate)


def test_repetition_does_not_cross_sentences():
    assert quality.repetition_rate(["so", "so"], "en") == 0


def test_empty_hypotheses_are_counted():
    result = quality.measure(["", "  ", "a"], [["x"], ["y"], ["a"]], "en")
    assert result.empty == 2


def test_all_empty_scores_zero():
    result = quality.measure([""], [["x"]], "en", paper_bleu=True)
    assert (result.bleu, result.tokenised_bleu, result.length_ratio, result.empty) == (0, 0, 0, 1)


def test_compounds_are_split_on_both_sides():
    assert quality.split_compounds("die E-Mail - ja") == "die E ##AT##-##AT## Mail - ja"
    # unsplit, "Sommer-Kurs" and "Winter-Kurs" have nothing in common; split, they share "- Kurs"
    hypotheses, references = ["Er bucht den Sommer-Kurs ."], [["Er bucht den Winter-Kurs ."]]
    split = quality.tokenised_bleu(hypotheses, references, "de")
    # tokens: Er bucht den Sommer - Kurs . (7): matches 6/7, 4/6, 2/5, 0/4 -> no 4-gram, no smoothing
    assert split == 0
    assert quality.tokenised_bleu(hypotheses * 2, [*references, *[[hypotheses[0]]]], "de") == pytest.approx(
        100 * (13 / 14 * 10 / 12 * 7 / 10 * 4 / 8) ** 0.25
    )


def test_tokenised_bleu_of_other_languages_keeps_hyphens():
    hypotheses, references = ["a well-known old man sleeps"], [["a well-read old man sleeps"]]
    assert quality.tokenised_bleu(hypotheses * 2, [*references, [hypotheses[0]]], "en") == pytest.approx(
        100 * (9 / 10 * 6 / 8 * 4 / 6 * 2 / 4) ** 0.25
    )
    assert "compound" not in quality.tokenised_bleu_label("en")
    assert "compound-split" in quality.tokenised_bleu_label("de")


def test_statistics_sum_to_sacrebleu():
    statistics = quality.sentence_statistics(HYPOTHESES, REFERENCES, "de")
    assert statistics.shape == (4, 10)
    assert quality.corpus_bleu(statistics.sum(0)) == quality.measure(HYPOTHESES, REFERENCES, "de").bleu


def test_bootstrap_is_symmetric_and_deterministic():
    forth = quality.paired_bootstrap(OTHER, HYPOTHESES, REFERENCES, "de", samples=200)
    back = quality.paired_bootstrap(HYPOTHESES, OTHER, REFERENCES, "de", samples=200)
    assert forth == quality.paired_bootstrap(OTHER, HYPOTHESES, REFERENCES, "de", samples=200)
    assert forth != quality.paired_bootstrap(OTHER, HYPOTHESES, REFERENCES, "de", samples=200, seed=2)
    assert forth.difference == -back.difference > 0
    assert (forth.low, forth.high) == pytest.approx((-back.high, -back.low))
    assert forth.p_value == back.p_value
    assert forth.low < forth.difference < forth.high
    assert forth.bleu_a == quality.measure(OTHER, REFERENCES, "de").bleu


def test_bootstrap_tells_chance_from_difference():
    same = quality.paired_bootstrap(HYPOTHESES, HYPOTHESES, REFERENCES, "de", samples=100)
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    perfect = [lines[0] for lines in REFERENCES] * 10
    clear = quality.paired_bootstrap(OTHER * 10, perfect, REFERENCES * 10, "de", samples=100)
    assert clear.p_value == pytest.approx(1 / 101)
    assert clear.low > 0


def test_bootstrap_agrees_with_sacrebleu():
    from sacrebleu.significance import PairedTest

    references = REFERENCES * 5
    systems = [("a", OTHER * 5), ("b", (OTHER[:3] + HYPOTHESES[3:]) * 5)]
    bleu = {"BLEU": sacrebleu.metrics.BLEU(references=quality.reference_streams(references))}
    _, theirs = PairedTest(systems, bleu, None, test_type="bs", n_samples=1000)()
    ours = quality.paired_bootstrap(systems[0][1], systems[1][1], references, "de")
    assert ours.bleu_b == pytest.approx(theirs["BLEU"][1].score)
    assert ours.p_value == pytest.approx(theirs["BLEU"][1].p_value, abs=0.05)


def test_counts_that_differ_are_both_named():
    with pytest.raises(UserError, match=r"4 hypotheses.*3 lines"):
        quality.measure(HYPOTHESES, REFERENCES[:3], "de")
    with pytest.raises(UserError, match=r"4 hypotheses.*3 lines"):
        quality.paired_bootstrap(OTHER, HYPOTHESES, REFERENCES[:3], "de")


def test_nothing_to_score_and_no_reference_are_named():
    with pytest.raises(UserError, match="nothing to score"):
        quality.measure([], [], "de")
    with pytest.raises(UserError, match="line 2 has no reference"):
        quality.measure(["a", "b"], [["a"], []], "de")


def test_read_references(tmp_path: Path):
    (tmp_path / "one").write_text("a\nb\n\n", encoding="utf-8")
    (tmp_path / "two.tsv").write_text("c\td\t\ne\n\n", encoding="utf-8")
    one, tsv = tmp_path / "one", tmp_path / "two.tsv"
    assert quality.read_references([one], tsv, 3) == [["a", "c", "d"], ["b", "e"], ["", ""]]
    assert quality.read_references([one, one], None, 3) == [["a", "a"], ["b", "b"], ["", ""]]
    with pytest.raises(UserError, match=r"one has 3 lines.*2 sentences"):
        quality.read_references([one], None, 2)
    with pytest.raises(UserError, match="no references"):
        quality.read_references([], None, 2)


def test_json_and_lines():
    result = quality.measure(HYPOTHESES, REFERENCES, "de", paper_bleu=True)
    assert quality.to_json(result)["bleu"] == result.bleu
    assert "tokenised_bleu" not in quality.to_json(quality.measure(HYPOTHESES, REFERENCES, "de"))
    text = "\n".join(quality.to_lines(result))
    assert f"{result.bleu:.2f}  {result.bleu_signature}" in text
    assert "not comparable with sacreBLEU" in text
