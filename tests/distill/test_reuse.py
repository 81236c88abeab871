"""Distillation that goes on from another one: what the teacher has said already is not asked again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from disco_mt.cli import main
from disco_mt.core.errors import UserError
from disco_mt.data.dataset import Dataset
from disco_mt.distill import teacher as teacher_module
from disco_mt.distill.run import DistillOptions, distill
from tiny_distill import contents, make_dataset, make_teacher


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds `data`, `teacher`, `plain` and `more`: distilled, without and with spliced sources."""
    folder = tmp_path_factory.mktemp("known")
    make_teacher(folder / "teacher", make_dataset(folder / "data"), {}, steps=60)
    distill(options_in(folder, "plain"), quiet=True)
    distill(replace(options_in(folder, "more"), splice=1.0), quiet=True)
    return folder


def options_in(place: Path, out: str) -> DistillOptions:
    return DistillOptions(
        str(place / "teacher"), place / "data", place / out, beam=3, shard_size=16, batch_tokens=128
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The sentences that a teacher is asked to translate."""
    seen: list[list[int]] = []
    translate = teacher_module._by_torch

    def counted(*arguments: Any) -> Any:
        seen.extend(arguments[3])
        return translate(*arguments)

    monkeypatch.setattr(teacher_module, "_by_torch", counted)
    return seen


def listed(place: Path, name: str) -> set[tuple[int, ...]]:
    train = Dataset.open(place / name).splits["train"]
    return {tuple(train.source[index].tolist()) for index in range(len(train))}


def test_only_new_sentences_are_translated_and_the_result_is_the_same(
    place: Path, asked: list[list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    options = replace(options_in(place, "again"), splice=1.0, reuse=(place / "plain",))
    distill(options)
    assert contents(place / "again") == contents(place / "more")
    known = listed(place, "plain")
    new = listed(place, "more") - known
    assert new
    assert new <= {*map(tuple, asked)}
    assert known.isdisjoint(map(tuple, asked))
    assert f"; {len(known):,} are reused" in capsys.readouterr().err


def test_options_that_are_added_one_day_make_no_other_distillation(place: Path) -> None:
    stored = json.loads((place / "plain" / "provenance.json").read_text())["settings"]["decoding"]
    assert stored == {
        "engine": "torch",
        "strategy": "beam",
        "iterations": 10,
        "length_beam": 5,
        "beam": 3,
        "length_penalty": 1.0,
        "length_weight": None,
    }


def test_where_all_is_known_nobody_is_asked(place: Path, asked: list[list[int]]) -> None:
    distill(replace(options_in(place, "copy"), reuse=(place / "more",)), quiet=True)
    assert contents(place / "copy") == contents(place / "plain")
    assert not asked


def test_another_teacher_or_search_is_refused(place: Path, tmp_path: Path) -> None:
    for change in ({"beam": 2}, {"length_penalty": 0.5}):
        with pytest.raises(UserError, match="not what this teacher would say now: another decoding"):
            distill(replace(options_in(place, "other"), reuse=(place / "plain",), **change), quiet=True)
    data = Dataset.open(place / "data")
    make_teacher(tmp_path / "other", data, {}, steps=1)
    options = replace(options_in(place, "other"), model=str(tmp_path / "other"), reuse=(place / "plain",))
    with pytest.raises(UserError, match="another teacher; leave out --reuse"):
        distill(options, quiet=True)
    assert not list(place.glob("other*"))


def test_what_was_not_distilled_is_named(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["distill", "--model", str(place / "teacher"), "--data", str(place / "data")]
    assert main([*command, "--out", str(tmp_path / "out"), "--reuse", str(place / "data")]) == 2
    assert f"{place / 'data'} " in capsys.readouterr().err
    shutil.copytree(place / "plain", tmp_path / "plain")
    (tmp_path / "plain" / "provenance.json").write_text(json.dumps({"settings": 3}))
    assert main([*command, "--out", str(tmp_path / "out"), "--reuse", str(tmp_path / "plain")]) == 2
    assert "has no settings; is it a dataset made by `disco distill`?" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
