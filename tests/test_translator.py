"""The Python face: load once, translate many; what comes back does not hang on what else was asked."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from disco_mt import Translator
from disco_mt.core.errors import UserError
from disco_mt.engine.select import make_engine
from disco_mt.nn.find import check_device, find_model
from disco_mt.translator import Own
from small_model import LONGEST, Small, make_small, sentences


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return make_small(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module", params=["disco", "cmlm", "autoregressive"])
def translator(small: Small, request: pytest.FixtureRequest) -> Translator:
    """In float64: batches round differently, and in float32 a near tie could fall either way."""
    found = Translator.from_pretrained(getattr(small, request.param))
    return replace(found, engine=make_engine(found.model.double(), found.text.vocabularies))


@pytest.fixture(scope="module")
def disco(small: Small) -> Translator:
    return Translator.from_pretrained(str(small.disco))


def test_a_result_has_all_that_the_readme_promises(disco: Translator) -> None:
    found = disco.translate(["The old house."], strategy="easy-first", iterations=3, length_beam=3)[0]
    assert found.text
    assert len(found.tokens) == len(found.probabilities) == len(found.pieces) > 0
    assert all(0 < probability <= 1 for probability in found.probabilities)
    assert found.score < 0
    assert 1 <= found.steps <= 3
    assert found.trace is None
    assert (found.parts, found.refused) == ((), "")
    assert disco.text.target.decode(disco.text.target.ids(found.tokens)) == found.text


def test_the_trace_has_every_pass_of_every_candidate(disco: Translator) -> None:
    found = disco.translate(["The old house."], strategy="mask-predict", iterations=3, trace=True)[0]
    assert found.trace is not None
    assert len(found.trace.passes) == len(found.trace.winners) == found.steps == 3
    assert len(found.trace.lengths) == len(set(found.trace.lengths)) == 5
    for now in found.trace.passes:
        assert [len(candidate.tokens) for candidate in now] == list(found.trace.lengths)
    assert found.trace.passes[-1][found.trace.winners[-1]].tokens == found.tokens


def test_results_come_in_order_however_they_are_batched(translator: Translator) -> None:
    texts = ["", *sentences(12, seed=4), " ", "The house. " * 30, "x"]
    random.Random(1).shuffle(texts)
    wanted = [translator.translate([text], iterations=3)[0] for text in texts]
    for batch_tokens in (1, 60, 10_000):
        found = translator.translate(texts, iterations=3, batch_tokens=batch_tokens)
        assert [each.text for each in found] == [each.text for each in wanted]
        assert [each.steps for each in found] == [each.steps for each in wanted]
        assert [each.score for each in found] == pytest.approx([each.score for each in wanted], abs=1e-9)


@pytest.mark.parametrize("text", ["", " ", "   "])
@pytest.mark.parametrize("split", [False, True])
def test_nothing_becomes_nothing(translator: Translator, text: str, split: bool) -> None:
    found = translator.translate([text], split=split)[0]
    assert (found.text, found.tokens, found.steps, found.parts) == ("", (), 0, ())


def test_no_texts_no_translations(translator: Translator) -> None:
    assert translator.translate([]) == []


def test_sentences_of_a_paragraph_are_translated_apart(disco: Translator) -> None:
    parts = ["The old house sees.", "Today the child finds!"]
    whole = disco.translate([" ".join(parts)], iterations=2, split=True)[0]
    alone = disco.translate(parts, iterations=2)
    assert [part.text for part in whole.parts] == [each.text for each in alone]
    assert whole.tokens == alone[0].tokens + alone[1].tokens
    assert whole.steps == alone[0].steps + alone[1].steps


def test_a_sentence_of_just_the_longest_length_is_read_whole(disco: Translator) -> None:
    fits = "the " * LONGEST
    assert len(disco.text.source.encode(fits)) == LONGEST == disco.longest_source
    assert disco.translate([fits], iterations=1, long="refuse")[0].text
    refused = disco.translate([fits + "the"], iterations=1, long="refuse")[0]
    assert (refused.text, refused.tokens) == ("", ())
    assert f"{LONGEST + 1} tokens" in refused.refused
    cut = disco.translate([fits + "the"], iterations=1, long="split")[0]
    assert len(cut.parts) == 2


def test_a_long_word_without_a_space_is_cut_too(disco: Translator) -> None:
    found = disco.translate(["ü" * 100], iterations=1)[0]
    assert len(found.parts) == -(-len(disco.text.source.encode("ü" * 100)) // LONGEST)


def test_progress_counts_every_sentence(disco: Translator) -> None:
    done: list[int] = []
    disco.translate(["", *sentences(7)], iterations=1, batch_tokens=20, progress=done.append)
    assert sum(done) == 7
    assert len(done) > 1


def test_mistakes_are_user_errors(disco: Translator, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="strategy 'beam' does not fit"):
        disco.translate(["x"], strategy="beam")
    with pytest.raises(UserError, match="iterations must be at least 1"):
        disco.translate([], iterations=0)
    with pytest.raises(UserError, match="there is no model 'en-xx'"):
        find_model("en-xx")
    with pytest.raises(UserError, match="device must be one of cpu, cuda, mps; got 'gpu'"):
        check_device("gpu")
    with pytest.raises(UserError, match=r"config\.json is missing"):
        Translator.from_pretrained(tmp_path)


def test_a_model_may_ask_to_read_its_own_candidates(small: Small, tmp_path: Path) -> None:
    path = shutil.copytree(small.disco, tmp_path / "reader")
    config = json.loads((path / "config.json").read_text())
    config["extra"]["decoding"] = {"length_weight": 0.4, "rescore_with": "self"}
    (path / "config.json").write_text(json.dumps(config))
    texts = sentences(5, seed=3)
    own = Translator.from_pretrained(path).translate(texts)
    asked = Translator.from_pretrained(small.disco, rescore_with="self")
    assert own == asked.translate(texts, length_weight=0.4)
    assert own != asked.translate(texts, length_weight=-3.0)
    plain = Translator.from_pretrained(path, rescore_with="none").translate(texts)
    assert plain == Translator.from_pretrained(small.disco).translate(texts)
    assert [each.steps for each in own] == [each.steps + 1 for each in plain]


def test_a_model_may_ask_to_read_both_ways(small: Small) -> None:
    texts = sentences(12, seed=3)
    reader = Translator.from_pretrained(small.disco, rescore_with="self")
    own = replace(reader, own=Own(read="both-ways"))
    assert own.translate(texts) == reader.translate(texts, read="both-ways") != reader.translate(texts)
    assert own.translate(texts, read="left-to-right") == reader.translate(texts)


def test_a_model_may_ask_that_all_candidates_settle_for_its_own_reading(small: Small) -> None:
    texts = sentences(12, seed=3)
    reader = Translator.from_pretrained(small.disco, rescore_with="self")
    own = replace(reader, own=Own(settle="all", rescore_with="self"))
    assert own.translate(texts) == reader.translate(texts, settle="all")
    steps = [
        sum(each.steps for each in own.translate(texts, settle=settle)) for settle in ("", "all", "winner")
    ]
    assert steps[0] == steps[1] > steps[2]
    alone = replace(own, rescorer=None)
    assert alone.translate(texts) == Translator.from_pretrained(small.disco).translate(texts)
    by_reference = Translator.from_pretrained(small.disco, rescore_with="self", engine="reference")
    assert [each.tokens for each in by_reference.translate(texts, settle="all")] == [
        each.tokens for each in own.translate(texts)
    ]


def test_a_model_that_wrote_left_to_right_does_not_read_again(small: Small) -> None:
    texts = sentences(3)
    alone = Translator.from_pretrained(small.disco)
    reader = Translator.from_pretrained(small.disco, rescore_with="self")
    reader = replace(reader, own=Own(length_weight=3.0))  # which is for ranking
    assert reader.translate(texts, "autoregressive") == alone.translate(texts, "autoregressive")
    by_other = Translator.from_pretrained(small.disco, rescore_with=small.autoregressive)
    found = zip(
        by_other.translate(texts, "autoregressive"), alone.translate(texts, "autoregressive"), strict=True
    )
    assert all(one.steps == other.steps + 1 for one, other in found)


def test_a_trace_ends_with_the_candidate_that_the_reader_chose(small: Small) -> None:
    reader = Translator.from_pretrained(small.disco, rescore_with="self")
    for weight in (-5.0, 5.0):  # the least likely length, the likeliest
        (found,) = reader.translate(sentences(1), length_weight=weight, trace=True)
        assert found.trace is not None
        assert found.tokens == found.trace.passes[-1][found.trace.winners[-1]].tokens


@pytest.mark.parametrize(
    "wrong",
    [
        {"rescore_with": "him"},
        {"length_weight": "much"},
        {"length_penalty": -1},
        {"settle": "some"},
        {"read": "up"},
    ],
)
def test_what_a_model_cannot_ask_for(small: Small, tmp_path: Path, wrong: dict[str, object]) -> None:
    path = shutil.copytree(small.disco, tmp_path / "wrong")
    config = json.loads((path / "config.json").read_text())
    config["extra"]["decoding"] = wrong
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"config.json: extra.decoding.*" + next(iter(wrong))):
        Translator.from_pretrained(path)
