"""The WMT suites from their files to their scores, on a miniature mirror of these files.

The commands of the stages run here in this process, which saves their start; test_workspace.py and
tests/slow/ run them as processes.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from disco_mt.cli import main
from disco_mt.data.dataset import Dataset
from disco_mt.nn.directory import read_config
from disco_mt.suites.processes import Commands
from disco_mt.suites.suite import load_suite
from disco_mt.suites.workspace import Workspace
from tiny_mirror import SUITES, sentences, small_suite, write_mirror, write_part


def run_here(_: Commands, arguments: list[str], lock: int, show: Callable[[str], None], merge: bool) -> int:
    said, complained = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
        code = main(arguments)
    assert code == 0, complained.getvalue()
    for line in said.getvalue().splitlines():
        show(line)
    return code


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Commands, "run", run_here)
    monkeypatch.delenv("DISCO_DATA", raising=False)
    monkeypatch.setenv("DISCO_RUNS", str(tmp_path / "runs"))


@pytest.mark.parametrize("name", SUITES)
def test_from_the_files_to_the_scores(tmp_path: Path, name: str) -> None:
    suite = load_suite(small_suite(tmp_path, name))
    pairs = 300 if name == "wmt14.en-fr" else 60  # of each corpus: one in 1,333 of its five is the dev set
    space = Workspace(suite, data=write_mirror(tmp_path, suite, pairs))
    space.run("evaluate:disco-distilled", quiet=True)
    scores = space.scores("disco-distilled")
    assert scores["sentences"] == 5
    assert scores["decoding"]["strategy"] == "easy-first"
    assert ("tok:zh" in scores["bleu_signature"]) is (name == "wmt17.en-zh")
    data = Dataset.open(space.dataset("raw"))
    assert (data.text.source.language, data.text.target.language) == suite.data.languages
    assert data.text.joint is not name.startswith("wmt17")
    parts = suite.data.parts
    every = pairs * len((*parts.train, *parts.by_hand))
    assert len(data.splits["train"]) == every - (name == "wmt14.en-fr")
    assert read_config(space.model("disco-distilled")).model.dropout in (0.1, 0.2, 0.3)


def test_every_1333rd_pair_of_french_is_for_validation(tmp_path: Path) -> None:
    suite = load_suite(small_suite(tmp_path, "wmt14.en-fr"))
    mirror = write_mirror(tmp_path, suite, pairs=600)
    space = Workspace(suite, data=mirror)
    space.run("prepare", quiet=True)
    text = space.stage("prepare").directory / "text"
    whole = [line for name in suite.data.parts.train for line in sentences("en", 600, name)]
    assert lines(text / "valid.en") == [whole[1332], whole[2665]]
    assert lines(text / "train.en") == [
        line for n, line in enumerate(whole, start=1) if n not in (1333, 2666)
    ]
    assert len(lines(text / "train.fr")) == 2998
    assert len(lines(text / "valid.fr")) == 2


def test_dropout_is_chosen_by_dev_bleu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each value is a training of its own; the chosen one is averaged; what is chosen is not chosen again."""
    path = small_suite(tmp_path, "wmt16.en-ro")
    mirror = write_mirror(tmp_path, load_suite(path))
    options = [str(path), "--data", str(mirror), "--stage"]
    space = Workspace(load_suite(path), data=mirror)
    assert space.stage("choose:at-raw").needs == ("train:at-raw@0.1", "train:at-raw@0.2", "train:at-raw@0.3")
    assert space.stage("average:at-raw").needs == ("choose:at-raw",)
    assert main(["suite", "run", *options, "train:at-raw@0.1", "train:at-raw@0.2", "train:at-raw@0.3"]) == 0
    for value, bleu in ((0.1, 3.0), (0.2, 7.0), (0.3, 5.0)):  # as if they had learnt
        log = space.stage(f"train:at-raw@{value}").output / "log.jsonl"
        log.write_text(log.read_text() + json.dumps({"kind": "dev", "step": 3, "bleu": bleu}) + "\n")
    assert main(["suite", "run", *options, "average:at-raw"]) == 0
    shown = capsys.readouterr().out
    assert "train:at-raw@0.2  7.00  <- chosen" in shown
    assert shown.count("<- chosen") == 1
    assert space.run_directory("at-raw") == space.stage("train:at-raw@0.2").output
    assert read_config(space.model("at-raw")).model.dropout == 0.2
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    assert main(["suite", "run", *options, "average:at-raw"]) == 0
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before


def test_sides_that_differ_are_refused_and_earlier_results_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = small_suite(tmp_path, "wmt14.en-de")
    suite = load_suite(path)
    mirror = write_mirror(tmp_path, suite)
    options = ["suite", "run", str(path), "--data", str(mirror), "--stage", "prepare"]
    assert main(options) == 0
    made = {file: file.read_bytes() for file in (tmp_path / "runs").rglob("*") if file.is_file()}
    write_part(mirror / "wmt14-en-de" / "train-parts", suite.data.parts.train[1], ("en", "en"), 59)
    assert main(options) == 2
    said = capsys.readouterr().err
    assert "commoncrawl_wmt13-1-deu-eng.eng and " in said
    assert "must have the same number of lines, but have 59 and 60" in said
    left = {file: file.read_bytes() for file in (tmp_path / "runs").rglob("*") if file.is_file()}
    assert made.items() <= left.items()
    assert not [file for file in left.keys() - made.keys() if file.name != "lock"]


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()
