"""Choosing a decoding weight on dev: the scores are those of decoding again, with less work."""

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
from disco_mt.evaluation.tune import TRIES, Weight, tune, with_weight
from disco_mt.suites.package import EVERYDAY
from disco_mt.translator import Translator

LINES = EVERYDAY[:8]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the engine decodes, and candidates are scored apart from it."""
    counted: Counter[str] = Counter()
    decode, score = IncrementalEngine.decode, Reranker.candidate_scores

    def counting(self: IncrementalEngine, *arguments: Any) -> Any:
        counted["decode"] += 1
        return decode(self, *arguments)

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
    translator = Translator.from_pretrained("en-de", EngineOptions(engine=engine), reranker)
    plain = replace(translator, reranker=None).translate(LINES, DecodingOptions(length_penalty=1.0))
    references = [[each.text] for each in plain]
    calls.clear()
    options = DecodingOptions(strategy="easy-first")
    found = dict(tune(translator, LINES, references, options, weight))
    assert calls == Counter(decode=decoded, score=scored)
    assert len(found) == TRIES
    for value in [*found][::5]:
        texts = translator.translate(LINES, with_weight(options, weight, value))
        assert measure([each.text for each in texts], references, "de").bleu == found[value]
    assert len({*found.values()}) > 1  # or nothing was chosen from
