"""Several processes train as one would: the same updates, one log, one end, and a restart loses nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_run
import torch
from tiny_run import TOGETHER, go, last, same, story

from disco_mt.core.errors import UserError
from disco_mt.training.processes import init_distributed, own_device
from disco_mt.training.rundir import lock_run, read_log
from small_model import make_small


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


def launch(run: Path, *flags: str, world: int = 2) -> list[tuple[int, str]]:
    """Start the processes of a run as a launcher does; exit code and messages of each."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(world)}
    command = [sys.executable, tiny_run.__file__, str(run), *flags]
    started = [
        subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **address, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
        )
        for rank in range(world)
    ]
    said = [process.communicate(timeout=120)[1] for process in started]
    return [(process.returncode, text) for process, text in zip(started, said, strict=True)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One process that accumulates what two would share."""
    run = tmp_path_factory.mktemp("alone") / "run"
    go(run, TOGETHER, trained=tiny_run.model(dropout=0.0))
    return run


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two processes."""
    run = tmp_path_factory.mktemp("pair") / "run"
    (first, said), (second, silence) = launch(run, "together", "steady")
    assert (first, second) == (0, 0), said + silence
    assert "an update is 2 x 2 x 70 tokens" in said
    assert "step 50 of 50" in said
    assert "step" not in silence  # one process speaks
    return run


def assert_near(run: Path, other: Path) -> None:
    ours, theirs = last(run), last(other)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=1e-5, atol=1e-5)


def test_two_are_as_one_with_twice_the_accumulation(alone: Path, pair: Path) -> None:
    ours, theirs = story(pair), story(alone)
    assert sum(line["kind"] == "train" for line in ours) == 50
    for one, other in zip(ours, theirs, strict=True):
        assert one.pop("kind") == other.pop("kind")
        assert one == pytest.approx(other, rel=1e-5, abs=1e-5)
    assert_near(pair, alone)
    starts = [next(line for line in read_log(run) if line["kind"] == "start") for run in (pair, alone)]
    assert [(line["processes"], line["accumulation"]) for line in starts] == [(2, 2), (1, 4)]


def test_a_signal_to_one_stops_both_and_one_goes_on(
    tmp_path: Path, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    ends = launch(run, "together", "steady", "term:1:31")  # the second process has 5 batches per epoch
    assert [code for code, _ in ends] == [128 + signal.SIGTERM] * 2
    assert read_log(run)[-1] | {"seconds": 0} == {
        "kind": "end", "step": 19, "reason": "interrupted", "seconds": 0
    }  # fmt: skip
    go(run, TOGETHER, resume=True, trained=tiny_run.model(dropout=0.0), quiet=False)
    assert "until now the number of processes was 2; from here on it is 1" in capsys.readouterr().err
    assert_near(run, alone)


def test_a_refusal_is_said_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    go(run, replace(TOGETHER, max_steps=1), trained=tiny_run.model(dropout=0.0))
    (first, said), (second, silence) = launch(run, "together", "resume")  # with dropout
    assert (first, second) == (1, 2)
    assert "UserError: model.dropout is 0.1" in said
    assert "UserError" not in silence


def test_torchrun_restarts_what_died(tmp_path: Path, pair: Path) -> None:
    """A worker is killed after the checkpoint of step 14; both begin again there, with no --resume."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["--max-restarts=1", tiny_run.__file__, str(run), "together", "steady", "kill:1:25"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "going on after step 14" in done.stderr
    assert same(last(run), last(pair))
    assert story(run) == story(pair)


def test_a_second_training_is_kept_out(tmp_path: Path) -> None:
    run, options = tmp_path / "run", replace(TOGETHER, max_steps=1)
    go(run, options)
    with ExitStack() as held:
        lock_run(run, held)
        with pytest.raises(UserError, match="another process is training in"):
            go(run, options, resume=True)
    go(run, options, resume=True)


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_device("cuda") == "cuda"  # alone: whichever torch takes
    launcher: dict[str, Any] = {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "1",
    }
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    assert own_device("cpu") == "cpu"
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(UserError, match="process 2 on this machine, but it has 1 GPUs"):
        own_device("cuda")
    with pytest.raises(UserError, match="mps works with one process"), init_distributed("mps"):
        pass


def test_the_command(tmp_path: Path) -> None:
    """`torchrun -m disco_mt train`: two processes, one result."""
    small = make_small(tmp_path)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        "[model]\nwidth = 16\nencoder = {layers = 1, heads = 2, hidden = 16}\n"
        "decoder = {layers = 1, heads = 2, hidden = 16}\n"
        "[training]\nbatch_tokens = 512\nmax_tokens = 256\nmax_steps = 3\n[decoding]\nlength_beam = 1\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["-m", "disco_mt", "train", str(recipe), "--data", str(small.dataset)]
    command += ["--out", str(tmp_path / "run"), "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)  # one line, of the first process
    assert (result["step"], result["reason"]) == (3, "steps")
    assert [line["processes"] for line in read_log(tmp_path / "run") if line["kind"] == "start"] == [2]
