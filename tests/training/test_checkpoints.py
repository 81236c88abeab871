"""A damaged, half-written or impossible checkpoint never costs more than the one it is."""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import tiny_run
from tiny_run import OPTIONS, go, last, same, story

from disco_mt.core.errors import UserError
from disco_mt.evaluation.dev import DevScore
from disco_mt.training import checkpoints
from disco_mt.training.job import Scored, State, Window
from disco_mt.training.optimizer import build_optimizer
from disco_mt.training.updates import Position


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(run: Path, step: int) -> None:
    model = tiny_run.model(seed=step)
    checkpoints.save(run, model, build_optimizer(model, OPTIONS), State(step=step), {})


def test_state_comes_back_from_json() -> None:
    history = [Scored(7, 1, DevScore(1 / 3, 2.5, 0.1))]
    state = State(9, Position(2, 5), history, Window({"loss": 0.1}, 3, 2, 1e-9, 0.5), 12.5, 2, 1)
    assert State.from_dict(json.loads(json.dumps(asdict(state)))) == state


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 10):
        write(tmp_path, step)
    assert names(tmp_path / "checkpoints") == ["step-00000002", "step-00000010"]
    assert names(tmp_path / "checkpoints" / "step-00000010") == [
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
    ]


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_newest_one_is_reported_and_the_one_before_used(
    tmp_path: Path, name: str, damage: str
) -> None:
    run = tmp_path / "run"
    go(run)  # checkpoints at 10 and 11
    straight, lines = last(run), story(run)
    path = run / "checkpoints" / "step-00000011" / name
    content = bytearray(path.read_bytes())
    content[content.rindex(b"1") if damage == "flip" else 0] ^= 1
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(bytes(content) if damage == "flip" else bytes(content[: len(content) // 2]))
    warnings: list[str] = []
    assert checkpoints.load_latest(run, warnings.append).state.step == 10
    assert "step-00000011 is damaged" in warnings[0]
    go(run, resume=True)
    assert same(last(run), straight)
    assert story(run) == lines


def test_none_usable(tmp_path: Path) -> None:
    warnings: list[str] = []
    with pytest.raises(UserError, match="there is none"):
        checkpoints.load_latest(tmp_path, warnings.append)
    write(tmp_path, 1)
    (tmp_path / "checkpoints" / "step-00000001" / "state.json").write_text("[]")
    with pytest.raises(UserError, match="all 1 are damaged"):
        checkpoints.load_latest(tmp_path, warnings.append)
    assert len(warnings) == 1


def test_a_newer_format_is_named(tmp_path: Path) -> None:
    write(tmp_path, 1)
    path = tmp_path / "checkpoints" / "step-00000001" / "state.json"
    path.write_text(path.read_text().replace('"format_version": 1', '"format_version": 9'))
    with pytest.raises(UserError, match="format version 9 is newer"):
        checkpoints.load_latest(tmp_path, print)


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """The kernel refuses to write more, as it does when a disk is full."""
    limit, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limit[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_the_one_before(tmp_path: Path) -> None:
    write(tmp_path, 1)
    with (
        files_no_larger_than(1000),
        pytest.raises(UserError, match=r"cannot write .*step-00000002.*--resume"),
    ):
        write(tmp_path, 2)
    assert names(tmp_path / "checkpoints") == ["step-00000001"]
    assert checkpoints.load_latest(tmp_path, print).state.step == 1


def test_no_space_while_training(tmp_path: Path) -> None:
    run, straight = tmp_path / "run", tmp_path / "straight"
    go(straight)
    go(run, replace(OPTIONS, max_steps=4))
    with files_no_larger_than(5000), pytest.raises(UserError, match="cannot write"):
        go(run, resume=True)
    go(run, resume=True)
    assert same(last(run), last(straight))
