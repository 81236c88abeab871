"""Choosing a decoding weight on dev: the scores are those of decoding anew, with less work."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import pytest

from disco_mt.decoding.options import DecodingOptions
from disco_mt.decoding.reranking import read_candidates
from disco_mt.engine.incremental import IncrementalEngine
from disco_mt.evaluation.quality import measure
from disco_mt.evaluation.tune import TRIES, Weight, tune, with_weight
from disco_mt.suites.package import EVERYDAY
from disco_mt.translator import Translator

LINES = EVERYDAY[:8]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the engine decodes, and candidates are read apart from it."""
    counted: Counter[str] = Counter()
    decode = IncrementalEngine.decode

    def counting(self: IncrementalEngine, *arguments: Any, **more: Any) -> Any:
        counted["decode"] += 1
        return decode(self, *arguments, **more)

    def counting_readings(*arguments: Any) -> Any:
        counted["read"] += 1
        return read_candidates(*arguments)

    monkeypatch.setattr(IncrementalEngine, "decode", counting)
    monkeypatch.setattr("disco_mt.evaluation.tune.read_candidates", counting_readings)
    return counted


@pytest.mark.parametrize(
    ("reader", "engine", "weight", "decoded", "read"),
    [
        ("self", "incremental", "length_weight", 1, 0),  # the engine has read them
        ("self", "reference", "length_weight", 0, 1),
        ("none", "incremental", "length_penalty", TRIES, 0),
    ],
)
def test_weights_score_as_if_each_was_decoded_alone(
    calls: Counter[str], reader: str, engine: str, weight: Weight, decoded: int, read: int
) -> None:
    translator = Translator.from_pretrained(rescore_with=reader, engine=engine)
    plain = replace(translator, rescorer=None).translate(LINES, length_penalty=1.0)
    references = [[each.text] for each in plain]
    calls.clear()
    options = DecodingOptions(strategy="easy-first")
    found = dict(tune(translator, LINES, references, options, weight))
    assert calls == Counter(decode=decoded, read=read)
    assert len(found) == TRIES
    for value in [*found][::5]:
        texts = translator.translate(LINES, **asdict(with_weight(options, weight, value)))
        assert measure([each.text for each in texts], references, "de").bleu == found[value]
    assert len({*found.values()}) > 1  # or nothing was chosen from
