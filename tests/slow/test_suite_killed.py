"""A suite that is stopped and killed while it trains resumes where it was, and comes to the same end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from disco_mt.suites.suite import load_suite
from disco_mt.suites.workspace import Workspace
from disco_mt.training.rundir import read_log
from tiny_suite import write_corpus, write_suite

STEPS = ("max_steps = 4", "max_steps = 300\nlog_every = 1\nsave_every = 5")


def start(suite: Path, *options: str) -> subprocess.Popen[str]:
    """In a process group of its own, so that a signal reaches this process alone."""
    folder = suite.parent
    command = [sys.executable, "-m", "disco_mt", "suite", "run", str(suite), "--runs", str(folder / "runs")]
    command += ["--data", str(folder / "corpora"), *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def wait_for_step(space: Workspace, step: int) -> None:
    """Until a training has come so far."""
    log = space.stage("train:teacher").output
    give_up = time.monotonic() + 120
    while not any(entry["step"] >= step for entry in read_log(log)):
        assert time.monotonic() < give_up
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_was_ended_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    write_corpus(tmp_path / "corpora")
    suite = write_suite(tmp_path, *STEPS)
    space = Workspace(load_suite(suite), tmp_path / "runs", tmp_path / "corpora")
    process = start(suite, "--stage", "train:teacher")
    wait_for_step(space, 10)
    process.send_signal(number)
    code = process.wait(timeout=60)
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    assert not space.stage("train:teacher").done
    before = len(
        [entry for entry in read_log(space.stage("train:teacher").output) if entry["kind"] == "train"]
    )
    out, _ = start(suite, "--stage", "train:teacher").communicate(timeout=300)
    log = read_log(space.run_directory("teacher"))
    assert [entry["step"] for entry in log if entry["kind"] == "train"] == list(range(1, 301))
    assert 0 < before < 300
    assert "--resume" in out
    # SIGTERM ends the training, too; after SIGKILL it goes on alone, and the second run waits for it.
    assert ("another process is at work" in out) == (number == signal.SIGKILL)


def test_all_stages_two_at_a_time(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpora")
    suite = write_suite(tmp_path)
    process = start(suite, "--jobs", "2")
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    assert "[train:mixed] " in out
    assert "| mixed   |" in out
    space = Workspace(load_suite(suite), tmp_path / "runs")
    assert all(stage.done for stage in space.stages())
