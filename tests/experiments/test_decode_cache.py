"""Translations are made once, and belong to the weights and options that made them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodingOptions
from disco_mt.experiments.decode import Decoding, Lab
from disco_mt.suites import roles
from disco_mt.suites.workspace import Workspace
from disco_mt.translator import Translator

EASY = Decoding("disco", roles.EASY_FIRST)


def files(workspace: Workspace) -> set[Path]:
    return set((workspace.folder / "hypotheses").rglob("*.jsonl"))


def test_cached_translations_are_those_of_the_translator(lab: Lab, workspace: Workspace, monkeypatch):
    found = lab.decode(EASY, "valid")
    plain = Translator.from_pretrained(workspace.model("disco")).translate(
        lab.sources("valid"), roles.EASY_FIRST
    )
    assert found.texts == tuple(each.text for each in plain)
    assert found.steps == tuple(each.steps for each in plain)
    assert found.tokens == tuple(len(each.tokens) for each in plain)
    monkeypatch.setattr(Lab, "_translate", None)  # from here on, everything comes from the cache
    again = Lab(workspace).decode(EASY, "valid")
    assert again == found


def test_options_that_are_not_read_do_not_matter(lab: Lab, workspace: Workspace):
    lab.decode(EASY, "valid")
    before = files(workspace)
    lab.decode(replace(EASY, options=replace(EASY.options, beam=3, length_weight=0.2)), "valid")
    assert files(workspace) == before
    lab.decode(replace(EASY, options=replace(EASY.options, length_beam=4)), "valid")
    assert len(files(workspace)) == len(before | files(workspace))


def test_slugs():
    assert EASY.slug() == "disco.easy-first.T10.K5"
    assert Decoding("at", replace(roles.BEAM, length_penalty=0.6)).slug() == "at.beam.b5.alpha0.6"
    assert Decoding("at", roles.GREEDY).slug() == "at.greedy"
    reranked = Decoding("m", replace(roles.EASY_FIRST, length_weight=0.4), "self")
    assert reranked.slug() == "m.easy-first.reranked-self.T10.K5.weight0.4"
    high = replace(reranked, options=replace(reranked.options, effort="high"))
    assert high.slug() == "m.easy-first.high.reranked-self.T10.K5.weight0.4"


def test_other_weights_are_other_translations(lab: Lab, workspace: Workspace):
    first = lab.decode(EASY, "valid")
    other = Workspace(workspace.suite, workspace.folder.parent)
    other.model = lambda _: workspace.model("disco-raw")  # type: ignore[method-assign]
    assert Lab(other).decode(EASY, "valid").texts != first.texts


def test_a_damaged_cache_is_named(lab: Lab, workspace: Workspace):
    decoding = Decoding("disco", replace(roles.EASY_FIRST, length_beam=3))
    before = files(workspace)
    lab.decode(decoding, "valid")
    (made,) = files(workspace) - before
    made.write_text("".join(made.read_text("utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")
    with pytest.raises(UserError, match="has 8 translations of 9 sentences; remove it"):
        lab.decode(decoding, "valid")
    made.unlink()


def test_tuned_on_dev_once(lab: Lab, workspace: Workspace, monkeypatch):
    """The best value on the dev set, never the test set."""
    tried: list[float] = []

    def tune(translator, lines, references, options, weight):
        assert lines == lab.sources("valid")
        for value in (0.0, 0.4, 1.0):
            tried.append(value)
            yield value, {0.0: 1.0, 0.4: 3.0, 1.0: 2.0}[value]

    monkeypatch.setattr("disco_mt.experiments.decode.tune", tune)
    decoding = Decoding("disco-raw", DecodingOptions(strategy="autoregressive"))
    assert lab.tuned(decoding, "length_weight").options.length_weight == 0.4
    assert Lab(workspace).tuned(decoding, "length_weight").options.length_weight == 0.4
    assert tried == [0.0, 0.4, 1.0]
    assert lab.choices == {"disco-raw.autoregressive.K5: length_weight": "0.4"}
