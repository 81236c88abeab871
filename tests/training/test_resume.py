"""Stopped anywhere and resumed: the same weights, bit for bit, and the same log."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import tiny_run
from tiny_run import OBJECTIVE, OPTIONS, go, last, same, story

from disco_mt.core.errors import UserError
from disco_mt.nn.losses import Objective
from disco_mt.nn.objective import ObjectiveOptions
from disco_mt.training.job import TrainingJob
from disco_mt.training.loop import train
from disco_mt.training.rundir import read_log


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without interruption."""
    run = tmp_path_factory.mktemp("straight") / "run"
    assert go(run).reason == "steps"
    return run


def interrupting(after: int, number: int = signal.SIGTERM) -> Objective:
    """The objective, and a signal to ourselves at the `after`th batch."""
    count = itertools.count(1)

    def objective(model: Any, batch: Any, key: int) -> Any:
        if next(count) == after:
            signal.raise_signal(number)
        return OBJECTIVE(model, batch, key)

    return objective


# In step 1; at a log line; an epoch's end; a checkpoint; a line and no checkpoint; ... ; in the last step.
@pytest.mark.parametrize("batch", [1, 8, 10, 12, 15, 17, 20, 24, 28])
def test_stopped_and_resumed_is_the_same(tmp_path: Path, straight: Path, batch: int) -> None:
    run = tmp_path / "run"
    result = go(run, objective=interrupting(batch))
    assert (result.reason, result.signal) == ("interrupted", signal.SIGTERM)
    assert 0 < result.step <= OPTIONS.max_steps
    assert go(run, resume=True).reason == "steps"
    assert same(last(run), last(straight))
    assert story(run) == story(straight)


def test_dropout_and_contexts_are_at_work(tmp_path: Path, straight: Path) -> None:
    """Otherwise the tests above would prove little."""
    run = tmp_path / "run"
    go(run, trained=tiny_run.model(dropout=0.0))
    assert not same(last(run), last(straight))


def test_stopped_three_times(tmp_path: Path, straight: Path) -> None:
    run = tmp_path / "run"
    go(run, objective=interrupting(4, signal.SIGINT))
    go(run, objective=interrupting(6), resume=True)
    go(run, objective=interrupting(1), resume=True)
    go(run, resume=True)
    assert same(last(run), last(straight))
    assert story(run) == story(straight)


def test_an_error_after_a_checkpoint_repeats_no_line(tmp_path: Path, straight: Path) -> None:
    """The process dies at step 9: back to the checkpoint of the epoch's end at 8, and the log with it."""
    run = tmp_path / "run"
    count = itertools.count(1)

    def failing(model: Any, batch: Any, key: int) -> Any:
        if next(count) == 22:
            raise ZeroDivisionError
        return OBJECTIVE(model, batch, key)

    with pytest.raises(ZeroDivisionError):
        go(run, objective=failing)
    go(run, resume=True)
    assert same(last(run), last(straight))
    assert story(run) == story(straight)


def spawn(run: Path, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, tiny_run.__file__, str(run), *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_sigterm_to_a_process(tmp_path: Path, straight: Path) -> None:
    run = tmp_path / "run"
    process = spawn(run)
    assert process.stdout is not None
    for _ in range(7):
        process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert read_log(run)[-1]["reason"] == "interrupted"
    go(run, resume=True)
    assert same(last(run), last(straight))
    assert story(run) == story(straight)


def test_killed_at_three_moments(tmp_path: Path, straight: Path) -> None:
    """tests/slow/test_training_killed.py does it twenty times."""
    run = tmp_path / "run"
    for batches, flags in ((5, ()), (7, ("resume",)), (9, ("resume",))):
        process = spawn(run, *flags)
        assert process.stdout is not None
        for _ in range(batches):
            process.stdout.readline()
        process.kill()
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
    go(run, resume=True)
    assert same(last(run), last(straight))
    assert story(run) == story(straight)


@pytest.mark.parametrize("path", ["best/step-00000004", "checkpoints/step-00000005"])
def test_killed_while_writing(tmp_path: Path, straight: Path, path: str) -> None:
    run = tmp_path / "run"
    process = spawn(run, f"die:{path}")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert list(run.glob("*/.step-*")), "the kill should have left something half-written"
    go(run, resume=True)
    assert not list(run.glob("*/.step-*"))
    assert same(last(run), last(straight))
    assert story(run) == story(straight)


def test_more_steps_than_planned(tmp_path: Path, straight: Path) -> None:
    run = tmp_path / "run"
    go(run, replace(OPTIONS, max_steps=6))
    assert go(run, replace(OPTIONS, save_every=2, log_every=1, patience=9), resume=True).step == 11
    assert same(last(run), last(straight))


def test_resuming_a_finished_run_does_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    go(run)
    before, lines = last(run), story(run)
    assert go(run, resume=True).reason == "steps"
    assert same(last(run), before)
    assert story(run) == lines


@pytest.mark.parametrize(
    ("name", "resume"),
    [
        ("training.seed", lambda run: go(run, replace(OPTIONS, seed=2), resume=True)),
        ("training.batch_tokens", lambda run: go(run, replace(OPTIONS, batch_tokens=64), resume=True)),
        ("training.learning_rate", lambda run: go(run, replace(OPTIONS, learning_rate=1.0), resume=True)),
        ("model.dropout", lambda run: go(run, resume=True, trained=tiny_run.model(dropout=0.3))),
        ("model.width", lambda run: go(run, resume=True, trained=tiny_run.model(width=32))),
        ("objective", lambda run: go(run, resume=True, recipe={"objective": "cloze"})),
    ],
)
def test_other_settings_are_refused(tmp_path: Path, name: str, resume: Callable[[Path], object]) -> None:
    run = tmp_path / "run"
    go(run, replace(OPTIONS, max_steps=2))
    with pytest.raises(UserError, match=name):
        resume(run)


def test_a_run_of_an_older_version_goes_on(tmp_path: Path) -> None:
    """Options that it did not know had their defaults, those of the objective too."""
    older = {"name": "disco", "label_smoothing": 0.1, "left_to_right_share": 0.5}
    now = asdict(ObjectiveOptions("disco"))
    assert older.items() < now.items()
    go(tmp_path / "run", replace(OPTIONS, max_steps=2), recipe={"objective": older})
    with pytest.raises(UserError, match="objective is"):
        go(tmp_path / "run", OPTIONS, resume=True, recipe={"objective": now | {"prefix_share": 0.2}})
    assert go(tmp_path / "run", OPTIONS, resume=True, recipe={"objective": now}).step == 11


def test_other_data_is_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    go(run, replace(OPTIONS, max_steps=2))
    data = tiny_run.dataset(tmp_path / "other")
    (data.path / "dataset.json").write_text("{ }")
    job = TrainingJob(tiny_run.model(), data, OBJECTIVE, tiny_run.score, OPTIONS, {})
    with pytest.raises(UserError, match="data is"):
        train(run, job, resume=True)


def test_where_to_start_and_where_to_resume(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(UserError, match="no training run to resume"):
        go(run, resume=True)
    assert not run.exists()
    run.mkdir()  # empty: as good as none
    go(run, replace(OPTIONS, max_steps=1))
    with pytest.raises(UserError, match="--resume"):
        go(run)
    with pytest.raises(UserError, match="not a training run"):
        go(tmp_path / "data")


def test_a_signal_ends_with_the_old_handlers_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    go(tmp_path / "run", objective=interrupting(2))
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path) -> None:
    def objective(model: Any, batch: Any, key: int) -> Any:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("not reached")

    before = signal.getsignal(signal.SIGINT)  # a job in the background may have been told to ignore it
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "run", objective=objective)
    assert signal.getsignal(signal.SIGINT) is before
