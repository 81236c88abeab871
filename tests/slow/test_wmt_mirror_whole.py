"""A WMT suite with all its systems, each stage a process of its own, on a miniature mirror of its files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from disco_mt.suites.suite import load_suite
from disco_mt.suites.workspace import Workspace
from tiny_mirror import SUITES, small_suite, write_mirror


@pytest.mark.parametrize("name", SUITES)
def test_every_stage_of_every_system(tmp_path: Path, name: str) -> None:
    path = small_suite(tmp_path, name)
    suite = load_suite(path)
    mirror = write_mirror(tmp_path / "corpora", suite, 300)
    folders = ["--data", str(mirror), "--runs", str(tmp_path / "runs")]
    command = [
        sys.executable,
        "-m",
        "disco_mt",
        "suite",
        "run",
        str(path),
        *folders,
        "--jobs",
        "2",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout).keys() == suite.systems.keys()
    stages = Workspace(suite, tmp_path / "runs", mirror).stages()
    assert all(stage.done for stage in stages)
    assert len(stages) == 2 + len(suite.systems) * (3 + 1 + 1 + 1) + len(suite.reports)
    [report] = [stage.output for stage in stages if stage.verb == "report"]
    text = report.read_text(encoding="utf-8")
    assert "tokenised BLEU |" in text  # the paper's own measure, on its own corpora
    assert "No verdicts: models of fewer than 1,000 updates" in text
