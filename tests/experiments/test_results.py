"""Committed translations: every score can be found again without a model, and a changed line is noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from disco_mt.cli import main
from disco_mt.core.errors import UserError
from disco_mt.evaluation.quality import measure
from disco_mt.experiments.decode import Lab
from disco_mt.experiments.experiment import Options
from disco_mt.experiments.results import export, read_results, recompute
from disco_mt.experiments.strategies import EXPERIMENT as STRATEGIES
from disco_mt.reporting.verdicts import Judge
from disco_mt.suites.workspace import Workspace


@pytest.fixture
def results(lab: Lab, tmp_path: Path) -> Path:
    STRATEGIES.run(lab, Options(samples=5))
    export(lab, "strategies", tmp_path / "results")
    return tmp_path / "results"


def references(workspace: Workspace, split: str) -> Path:
    return workspace.dataset("raw") / f"{split}.target.txt"


def test_scores_are_found_again(results: Path, lab: Lab, workspace: Workspace, capsys):
    found = read_results(results)
    assert len(found) == 5
    assert found[0].path.name == "valid.disco.all-but-itself.T10.K5.tsv"
    again = recompute(found, {"valid": lab.references("valid")})
    for each in again:
        assert each.agrees
        assert each.quality == measure(each.recorded.texts, lab.references("valid"), "de")
    command = ["experiment", "recompute", "--results", str(results)]
    assert main([*command, "--valid-references", str(references(workspace, "valid"))]) == 0
    out = capsys.readouterr().out
    assert "**strategies**" in out
    assert "5 of 5 files scored again; 0 with another score" in out


def test_the_json_says_what_made_it(results: Path):
    about = json.loads((results / "valid.disco.easy-first.T10.K5.json").read_text("utf-8"))
    assert about["system"] == "disco"
    assert about["decoding"] == {"strategy": "easy-first", "iterations": 10, "length_beam": 5}
    assert about["sentences"] == 9
    assert "tok:13a" in about["bleu_signature"]
    assert about["experiments"] == ["strategies"]


def test_a_file_of_several_experiments_names_them_all(results: Path, lab: Lab):
    export(lab, "main", results)
    about = json.loads((results / "valid.disco.easy-first.T10.K5.json").read_text("utf-8"))
    assert about["experiments"] == ["main", "strategies"]


def test_a_changed_translation_is_noticed(results: Path, workspace: Workspace, capsys):
    path = results / "valid.disco.easy-first.T10.K5.tsv"
    lines = path.read_text("utf-8").removesuffix("\n").split("\n")
    wanted = references(workspace, "valid").read_text("utf-8").splitlines()
    path.write_text("".join(f"{line}\n" for line in [f"2\t{wanted[0]}", *lines[1:]]), encoding="utf-8")
    command = ["experiment", "recompute", "--results", str(results)]
    assert main([*command, "--valid-references", str(references(workspace, "valid"))]) == 1
    assert "1 with another score" in capsys.readouterr().out


def test_committed_translations_are_compared(results: Path, lab: Lab, workspace: Workspace, capsys):
    one, two = "valid.disco.all-but-itself.T10.K5", "valid.disco.easy-first.T10.K5"
    command = ["experiment", "compare", one, two, "--results", str(results), "--samples", "20"]
    given = ["--references", str(references(workspace, "valid"))]
    assert main([*command, *given]) == 0
    before, after = (next(each for each in read_results(results) if each.path.stem == s) for s in (one, two))
    gain = Judge(lab.references("valid"), "de", 20).difference(after.texts, before.texts)
    assert capsys.readouterr().out == f"{one} -> {two}: {gain} BLEU\n"
    assert main([*command[:2], one, two, two, one, *command[4:], *given]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[2].startswith(f"difference of the gains: {2 * gain.estimate:+.2f} [")
    for wrong, message in (
        ((one,), "two files to compare, or four"),
        ((one, "valid.me"), "has no valid.me.tsv; there are: valid.disco.all"),
    ):
        assert main([*command[:2], *wrong, *command[4:], *given]) == 2
        assert message in capsys.readouterr().err
    assert main(command) == 2
    assert "no references" in capsys.readouterr().err


def test_mistakes_are_named(results: Path, workspace: Workspace, tmp_path: Path, capsys):
    command = ["experiment", "recompute", "--results", str(results)]
    assert main(command) == 2
    assert "--references FILE" in capsys.readouterr().err
    assert main([*command, "--valid-references", str(references(workspace, "test"))]) == 2
    assert "has 12 lines of references, but there are 9" in capsys.readouterr().err
    with pytest.raises(UserError, match="has no results"):
        read_results(tmp_path)
    path = results / "valid.disco.easy-first.T10.K5.tsv"
    path.write_text("no number\n", encoding="utf-8")
    with pytest.raises(UserError, match="line 1: expected steps, a tab, and text"):
        read_results(results)
