"""A distillation killed at ten random moments ends with the same bytes as one that was left alone."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

from tiny_distill import contents, make_dataset, make_teacher, spawn

KILLS = 10


def state(work: Path) -> set[str]:
    """Names of what is there; files may go while we look."""
    return {name for _, folders, files in os.walk(work) for name in (*folders, *files)}


def test_ten_kills(tmp_path: Path) -> None:
    make_teacher(tmp_path / "teacher", make_dataset(tmp_path / "data", pairs=1200), steps=60)
    straight, out, work = tmp_path / "straight", tmp_path / "out", tmp_path / "out.partial"
    assert spawn(tmp_path / "teacher", tmp_path / "data", straight).wait(timeout=600) == 0
    expected = contents(straight)

    draw, kills, interrupted = random.Random(), 0, 0
    while kills < KILLS:
        before = state(work)
        process = spawn(tmp_path / "teacher", tmp_path / "data", out)
        while process.poll() is None and state(work) == before and not out.exists():
            time.sleep(0.005)  # Python is starting
        time.sleep(draw.uniform(0, 0.4))
        process.kill()
        _, errors = process.communicate(timeout=60)
        kills += process.returncode == -signal.SIGKILL
        interrupted += work.exists()
        assert process.returncode in (0, -signal.SIGKILL), errors.decode()
        assert out.exists() != work.exists()
        if out.exists():  # it came to its end between two kills: again from the start
            assert contents(out) == expected
            shutil.rmtree(out)
    if not out.exists():
        assert spawn(tmp_path / "teacher", tmp_path / "data", out).wait(timeout=600) == 0
    assert interrupted >= KILLS // 2  # most kills hit a run at work
    assert contents(out) == expected
    assert not work.exists()
    assert not list(tmp_path.glob(".*"))
