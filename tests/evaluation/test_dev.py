"""The dev scorer of training: the same translations, and so the same score, as `disco evaluate`."""

from __future__ import annotations

from pathlib import Path

import pytest

from disco_mt.data.dataset import Dataset
from disco_mt.data.prepare import PrepareOptions, prepare
from disco_mt.decoding.options import DecodingOptions
from disco_mt.engine.select import make_engine
from disco_mt.evaluation import dev
from disco_mt.evaluation.quality import measure
from disco_mt.systems.build import build_model
from disco_mt.translator import Translator
from tiny import tiny_config


def test_sources_that_are_too_long_are_cut_up_and_not_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["a b c d e f g h i j k l m n o p q r s t", "a b c"]
    (tmp_path / "text").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = tmp_path / "text"
    data, languages = tmp_path / "data", ("en", "de")
    prepare(PrepareOptions(text, text, data, *languages, text, text, processing="pretokenized"), quiet=True)
    dataset = Dataset.open(data)
    size = dataset.text.source.vocabulary_size
    config = tiny_config(kind="disco", source_vocabulary=size, target_vocabulary=size, max_source=9)
    model = build_model(config).eval()
    translator = Translator(model, dataset.text, make_engine(model, dataset.text))
    expected = [each.text for each in translator.translate(lines)]
    found: list[list[str]] = []
    monkeypatch.setattr(dev, "measure", lambda texts, *rest: found.append(texts) or measure(texts, *rest))
    dev.dev_scorer(dataset, DecodingOptions())(model)
    assert found == [expected]
    beginning = translator.translate(" ".join(lines[0].split()[: config.max_source - 1]))
    assert expected[0] != beginning.text
