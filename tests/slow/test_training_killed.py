"""kill -9 at random moments of a training run, writes included: in the end the weights are the same."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

TRAINING = Path(__file__).parent.parent / "training"
sys.path.append(str(TRAINING))

from tiny_run import last, same, story  # noqa: E402 (it lies beside other tests)

KILLS = 20


def spawn(run: Path, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(TRAINING / "tiny_run.py"), str(run), "writing", "quiet", *flags]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def finish(run: Path, *flags: str) -> None:
    process = spawn(run, *flags)
    process.communicate(timeout=600)
    assert process.returncode == 0


def kill_later(process: subprocess.Popen[str], batches: int, delay: float) -> bool:
    """Kill -9 after so many batches and seconds more; False if the run was over before."""
    assert process.stdout is not None
    for _ in range(batches):
        process.stdout.readline()
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    return process.returncode == -signal.SIGKILL


def test_killed_twenty_times(tmp_path: Path) -> None:
    straight, run = tmp_path / "straight" / "run", tmp_path / "run"
    finish(straight)
    draw, killed, half_written = random.Random(5), 0, 0
    while killed < KILLS:
        process = spawn(run, *(["resume"] if (run / "run.json").exists() else []))
        killed += kill_later(process, draw.randint(1, 12), draw.uniform(0, 0.05))
        half_written += bool(list(run.glob("*/.step-*")))
    finish(run, "resume")
    assert half_written, "no kill fell into a write"
    assert same(last(run), last(straight))
    assert story(run) == story(straight)
    assert not list(run.glob("*/.step-*"))
