"""The Python API: load once, translate many; results do not depend on batch mates."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from disco_mt import DecodingOptions, Translator
from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodeRequest, DecodingDefaults
from disco_mt.engine.select import EngineOptions, make_engine
from disco_mt.nn.find import check_device, find_model
from small_model import LONGEST, Small, make_small, sentences

ONCE = DecodingOptions(iterations=1)
WORD_BY_WORD = DecodingOptions("autoregressive")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return make_small(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module", params=["disco", "cmlm", "autoregressive"])
def translator(small: Small, request: pytest.FixtureRequest) -> Translator:
    """In float64: batches round differently, and in float32 a near tie could fall either way."""
    found = Translator.from_pretrained(getattr(small, request.param))
    return replace(found, engine=make_engine(found.model.double(), found.text))


@pytest.fixture(scope="module")
def disco(small: Small) -> Translator:
    return Translator.from_pretrained(str(small.disco))


def test_a_result_has_all_that_the_readme_promises(disco: Translator) -> None:
    found = disco.translate("The old house.", DecodingOptions("easy-first", iterations=3, length_beam=3))
    assert found.text
    assert len(found.tokens) == len(found.probabilities) == len(found.pieces) > 0
    assert all(0 < probability <= 1 for probability in found.probabilities)
    assert found.score < 0
    assert 1 <= found.steps <= 3
    assert found.trace is None
    assert (found.parts, found.refused) == ((), "")
    assert disco.text.target.decode(disco.text.target.ids(found.tokens)) == found.text


def test_the_trace_has_every_pass_of_every_candidate(disco: Translator) -> None:
    found = disco.translate(
        "The old house.", DecodingOptions("mask-predict", iterations=3), DecodeRequest(trace=True)
    )
    assert found.trace is not None
    assert len(found.trace.passes) == len(found.trace.winners) == found.steps == 3
    assert len(found.trace.lengths) == len(set(found.trace.lengths)) == 5
    for now in found.trace.passes:
        assert [len(candidate.tokens) for candidate in now] == list(found.trace.lengths)
    assert found.trace.passes[-1][found.trace.winners[-1]].tokens == found.tokens


def test_results_come_in_order_however_they_are_batched(translator: Translator) -> None:
    texts = ["", *sentences(12, seed=4), " ", "The house. " * 30, "x"]
    random.Random(1).shuffle(texts)
    three = DecodingOptions(iterations=3)
    wanted = [translator.translate(text, three) for text in texts]
    for batch_tokens in (1, 60, 10_000):
        found = translator.translate(texts, three, DecodeRequest(batch_tokens=batch_tokens))
        assert [each.text for each in found] == [each.text for each in wanted]
        assert [each.steps for each in found] == [each.steps for each in wanted]
        assert [each.score for each in found] == pytest.approx([each.score for each in wanted], abs=1e-9)


@pytest.mark.parametrize("text", ["", " ", "   "])
@pytest.mark.parametrize("split", [False, True])
def test_nothing_becomes_nothing(translator: Translator, text: str, split: bool) -> None:
    found = translator.translate(text, split=split)
    assert (found.text, found.tokens, found.steps, found.parts) == ("", (), 0, ())


def test_no_texts_no_translations(translator: Translator) -> None:
    assert translator.translate([]) == []


def test_sentences_of_a_paragraph_are_translated_apart(disco: Translator) -> None:
    parts = ["The old house sees.", "Today the child finds!"]
    whole = disco.translate(" ".join(parts), DecodingOptions(iterations=2), split=True)
    alone = disco.translate(parts, DecodingOptions(iterations=2))
    assert [part.text for part in whole.parts] == [each.text for each in alone]
    assert whole.tokens == alone[0].tokens + alone[1].tokens
    assert whole.steps == alone[0].steps + alone[1].steps


def test_a_sentence_of_just_the_longest_length_is_read_whole(disco: Translator) -> None:
    fits = "the " * LONGEST
    assert len(disco.text.source.encode(fits)) == LONGEST == disco.model.config.longest_source
    assert disco.translate(fits, ONCE, long="refuse").text
    refused = disco.translate(fits + "the", ONCE, long="refuse")
    assert (refused.text, refused.tokens) == ("", ())
    assert f"{LONGEST + 1} tokens" in refused.refused
    cut = disco.translate(fits + "the", ONCE, long="split")
    assert len(cut.parts) == 2


def test_a_long_word_without_a_space_is_cut_too(disco: Translator) -> None:
    found = disco.translate("ü" * 100, ONCE)
    assert len(found.parts) == -(-len(disco.text.source.encode("ü" * 100)) // LONGEST)


def test_progress_counts_every_sentence(disco: Translator) -> None:
    done: list[int] = []
    disco.translate(["", *sentences(7)], ONCE, DecodeRequest(progress=done.append, batch_tokens=20))
    assert sum(done) == 7
    assert len(done) > 1


def test_mistakes_are_user_errors(disco: Translator, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="strategy 'beam' does not fit"):
        disco.translate("x", DecodingOptions("beam"))
    with pytest.raises(UserError, match="iterations must be at least 1"):
        disco.translate([], DecodingOptions(iterations=0))
    with pytest.raises(UserError, match="there is no model 'en-xx'"):
        find_model("en-xx")
    with pytest.raises(UserError, match="device must be one of cpu, cuda, mps; got 'gpu'"):
        check_device("gpu")
    with pytest.raises(UserError, match=r"config\.json is missing"):
        Translator.from_pretrained(tmp_path)


def test_a_model_may_ask_to_rerank_its_own_candidates(small: Small, tmp_path: Path) -> None:
    path = shutil.copytree(small.disco, tmp_path / "reader")
    config = json.loads((path / "config.json").read_text())
    config["extra"]["decoding"] = {"length_weight": 0.4, "rescore_with": "self"}
    (path / "config.json").write_text(json.dumps(config))
    texts = sentences(5, seed=3)
    own = Translator.from_pretrained(path).translate(texts)
    asked = Translator.from_pretrained(small.disco, rerank_with="self")
    assert own == asked.translate(texts, DecodingOptions(length_weight=0.4))
    assert own != asked.translate(texts, DecodingOptions(length_weight=-3.0))
    plain = Translator.from_pretrained(path, rerank_with="none").translate(texts)
    assert plain == Translator.from_pretrained(small.disco).translate(texts)
    assert [each.steps for each in own] == [each.steps + 1 for each in plain]


def test_effort_is_a_preset(small: Small) -> None:
    texts = sentences(12, seed=3)
    reranked = Translator.from_pretrained(small.disco, rerank_with="self")
    plain = Translator.from_pretrained(small.disco)
    fast, normal, high = (
        reranked.translate(texts, DecodingOptions(effort=effort)) for effort in ("fast", "normal", "high")
    )
    assert normal == reranked.translate(texts) != high
    assert fast == plain.translate(texts, DecodingOptions(length_beam=2))
    assert sum(each.steps for each in fast) < sum(each.steps for each in normal)
    assert sum(each.steps for each in normal) < sum(each.steps for each in high)
    assert high == plain.translate(texts, DecodingOptions(effort="high"))  # which always reranks
    by_reference = Translator.from_pretrained(small.disco, EngineOptions(engine="reference"))
    again = by_reference.translate(texts, DecodingOptions(effort="high"))
    assert [each.tokens for each in again] == [each.tokens for each in high]
    with pytest.raises(UserError, match="'mask-predict' of a model of kind disco has no effort 'high'"):
        reranked.translate(texts, DecodingOptions("mask-predict", "high"))
    with pytest.raises(UserError, match=r"effort must be one of .*got 'highest'"):
        DecodingOptions(effort="highest")  # type: ignore[arg-type]


@pytest.mark.parametrize("old", [{"settle": "all"}, {"read": "both-ways"}])
def test_a_model_of_an_older_release_that_asked_for_care_gets_effort_high(
    small: Small, tmp_path: Path, old: dict[str, str]
) -> None:
    path = shutil.copytree(small.disco, tmp_path / "old")
    config = json.loads((path / "config.json").read_text())
    config["extra"]["decoding"] = {"rescore_with": "self", **old}
    (path / "config.json").write_text(json.dumps(config))
    texts = sentences(12, seed=3)
    found = Translator.from_pretrained(path)
    assert found.defaults == DecodingDefaults(rerank="self", effort="high")
    assert found.translate(texts) == found.translate(texts, DecodingOptions(effort="high"))
    assert found.translate(texts) != found.translate(texts, DecodingOptions(effort="normal"))
    unranked = Translator.from_pretrained(path, rerank_with="none")
    assert unranked.translate(texts) == Translator.from_pretrained(small.disco).translate(texts)


def test_a_models_own_effort_is_for_strategies_that_have_it(small: Small) -> None:
    careful = Translator.from_pretrained(small.disco, rerank_with="self")
    careful = replace(careful, defaults=DecodingDefaults(rerank="self", effort="high"))
    assert careful.resolved(DecodingOptions()).effort == "high"
    for strategy in ("left-to-right", "mask-predict", "autoregressive"):
        assert careful.resolved(DecodingOptions(strategy)).effort == "normal"
        assert careful.resolved(DecodingOptions(strategy, "fast")).effort == "fast"


def test_one_string_is_one_text(disco: Translator) -> None:
    text = "The old house."
    assert disco.translate(text) == disco.translate([text])[0] == disco.translate((text,))[0]


def test_a_model_that_wrote_left_to_right_does_not_score_again(small: Small) -> None:
    texts = sentences(3)
    alone = Translator.from_pretrained(small.disco)
    reader = Translator.from_pretrained(small.disco, rerank_with="self")
    reader = replace(reader, defaults=DecodingDefaults(length_weight=3.0))  # which is for reranking
    assert reader.translate(texts, WORD_BY_WORD) == alone.translate(texts, WORD_BY_WORD)
    by_other = Translator.from_pretrained(small.disco, rerank_with=small.autoregressive)
    found = zip(by_other.translate(texts, WORD_BY_WORD), alone.translate(texts, WORD_BY_WORD), strict=True)
    assert all(one.steps == other.steps + 1 for one, other in found)


def test_a_trace_ends_with_the_candidate_that_the_reranker_chose(small: Small) -> None:
    reader = Translator.from_pretrained(small.disco, rerank_with="self")
    for weight in (-5.0, 5.0):  # the least likely length, the likeliest
        options = DecodingOptions(length_weight=weight)
        (found,) = reader.translate(sentences(1), options, DecodeRequest(trace=True))
        assert found.trace is not None
        assert found.tokens == found.trace.passes[-1][found.trace.winners[-1]].tokens


@pytest.mark.parametrize(
    "wrong",
    [
        {"rerank": "him"},
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
