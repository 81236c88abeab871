"""Choosing a decoding weight on dev: the scores are those of decoding anew, with less work."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from disco_mt.decoding.options import DecodingOptions
from disco_mt.decoding.reranking import Reranker
from disco_mt.engine.incremental import IncrementalEngine
from disco_mt.engine.select import EngineOptions
from disco_mt.evaluation.quality import measure
from disco_mt.evaluation.tune import TRIES, Tried, Weight, choose, tune, with_weight
from disco_mt.suites.package import EVERYDAY
from disco_mt.translator import Translator

LINES = EVERYDAY[:8]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the engine decodes, and candidates are scored apart from it."""
    counted: Counter[str] = Counter()
    decode, score = IncrementalEngine.decode, Reranker.candidate_scores

    def counting(self: IncrementalEngine, *arguments: Any, **more: Any) -> Any:
        counted["decode"] += 1
        return decode(self, *arguments, **more)

    def counting_scores(self: Reranker, *arguments: Any) -> Any:
        counted["score"] += 1
        return score(self, *arguments)

    monkeypatch.setattr(IncrementalEngine, "decode", counting)
    monkeypatch.setattr(Reranker, "candidate_scores", counting_scores)
    return counted


@pytest.mark.parametrize(
    ("reranker", "engine", "weight", "decoded", "scored"),
    [
        ("self", "incremental", "length_weight", 1, 0),  # the engine has scored them
        ("self", "reference", "length_weight", 0, 1),
        ("none", "incremental", "length_penalty", TRIES, 0),
    ],
)
def test_weights_score_as_if_each_was_decoded_alone(
    calls: Counter[str], reranker: str, engine: str, weight: Weight, decoded: int, scored: int
) -> None:
    translator = Translator.from_pretrained(engine=EngineOptions(engine=engine), rerank_with=reranker)
    plain = replace(translator, reranker=None).translate(LINES, DecodingOptions(length_penalty=1.0))
    references = [[each.text] for each in plain]
    calls.clear()
    options = DecodingOptions(strategy="easy-first")
    found = {each.value: each.bleu for each in tune(translator, LINES, references, options, weight)}
    assert calls == Counter(decode=decoded, score=scored)
    assert len(found) == TRIES
    for value in [*found][::5]:
        texts = translator.translate(LINES, with_weight(options, weight, value))
        assert measure([each.text for each in texts], references, "de").bleu == found[value]
    assert len({*found.values()}) > 1  # or nothing was chosen from


def test_nothing_is_remembered_from_one_tuning_to_the_next() -> None:
    """Other lines, or other options, have other scores."""
    translator = Translator.from_pretrained(rerank_with="self")
    options = DecodingOptions(strategy="easy-first")
    references = [[each.text] for each in translator.translate(LINES, options)]
    first = [*tune(translator, LINES[:4], references[:4], options, "length_weight")]
    second = [*tune(translator, LINES[4:], references[4:], options, "length_weight")]
    other = [*tune(translator, LINES[:4], references[:4], replace(options, iterations=1), "length_weight")]
    assert len({tuple(first), tuple(second), tuple(other)}) == 3


def test_the_value_nearest_to_1_within_one_standard_error_of_the_best() -> None:
    """A gain of 0.1 BLEU on dev is no reason to leave 1; one of several standard errors is."""
    assert choose([Tried(1.0, 30.0, 0.7), Tried(1.8, 30.1, 0.7)]) == 1.0
    assert choose([Tried(1.0, 27.0, 0.7), Tried(1.4, 29.7, 0.7), Tried(1.8, 30.1, 0.7)]) == 1.4
    assert choose([Tried(1.0, 27.0, 0.7), Tried(1.4, 29.3, 0.7), Tried(1.8, 30.1, 0.7)]) == 1.8
    assert choose([Tried(0.8, 30.0, 0.5), Tried(1.2, 30.1, 0.5), Tried(2.0, 30.2, 0.5)]) == 1.2
    assert choose([Tried(1.0, 30.0), Tried(1.8, 30.1)]) == 1.8  # of a version that knew no errors


def test_the_error_is_that_of_other_dev_sets_of_the_size() -> None:
    """Equal translations have none; mixed ones have more in a smaller dev set."""
    translator = Translator.from_pretrained(rerank_with="none")
    options = DecodingOptions(strategy="easy-first", length_penalty=1.0)
    texts = [each.text for each in translator.translate(LINES, options)]
    wrong = [[text if number % 2 else "Das ist ganz und gar falsch."] for number, text in enumerate(texts)]
    exact = next(iter(tune(translator, LINES, [[text] for text in texts], options, "length_penalty")))
    few = next(iter(tune(translator, LINES, wrong, options, "length_penalty")))
    many = next(iter(tune(translator, LINES * 9, wrong * 9, options, "length_penalty")))
    assert exact.error < 1e-9
    assert few.error > 2 * many.error > 0
