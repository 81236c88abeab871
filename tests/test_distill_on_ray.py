"""Ray gives what one process gives, whatever happens to its workers: a local Ray of two, started here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from disco_mt.distill import on_ray
from disco_mt.distill.run import DistillOptions, distill
from disco_mt.errors import UserError
from tiny_distill import SETTINGS, contents, make_dataset, make_teacher

pytest.importorskip("ray", reason="the extra 'ray' is not installed")


def descendants(process: int) -> list[int]:
    try:
        children = [
            int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()
        ]
    except OSError:  # it has just ended
        return []
    return [*children, *(each for child in children for each in descendants(child))]


def workers(process: int) -> list[int]:
    """Those of the processes below that hold a teacher; Ray names them so."""
    names = {each: Path(f"/proc/{each}/cmdline") for each in descendants(process)}
    return [each for each, name in names.items() if name.exists() and b"MapWorker" in name.read_bytes()]


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="finds processes with /proc, which Linux has"
)
def test_a_worker_killed_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    """With two workers; shards that were finished by one process before are not done again."""
    make_teacher(tmp_path / "teacher", make_dataset(tmp_path / "data"), steps=60)
    places = ["--model", tmp_path / "teacher", "--data", tmp_path / "data"]
    options = DistillOptions(
        str(tmp_path / "teacher"),
        tmp_path / "data",
        tmp_path / "local",
        beam=3,
        shard_size=4,
        batch_tokens=128,
    )
    distill(options, quiet=True)
    out, shards = tmp_path / "out", tmp_path / "out.partial" / "shards"
    command = [sys.executable, "-m", "disco_mt", "distill", *SETTINGS, *places, "--out", out]
    command += ["--shard-size", "4", "--runner", "ray", "--workers", "2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([str(each) for each in command], env=environment, stdout=subprocess.DEVNULL)
    killed: list[int] = []
    while process.poll() is None and not killed:
        if len(list(shards.glob("*.safetensors"))) >= 2:
            killed = workers(process.pid)[:1]
            for each in killed:
                os.kill(each, signal.SIGKILL)
        time.sleep(0.002)
    assert killed
    assert not out.exists()  # it was at work
    assert process.wait(timeout=300) == 0
    assert contents(out) == contents(tmp_path / "local")
    assert not (tmp_path / "out.partial").exists()


def test_sentences_survive_the_wire() -> None:
    for sentences in ([], [[]], [[7, 65_536], [], [5]], [[], []]):
        assert on_ray._unpack(on_ray._pack(sentences)) == sentences


def test_a_cluster_without_room_is_named() -> None:
    job = on_ray.Job(
        Path("nowhere"), "torch", DistillOptions("", Path(), Path()).decoding, 128, "cpu", threads=4
    )
    assert on_ray._room({"CPU": 9.0}, job) == 2
    with pytest.raises(UserError, match=r"no room for a worker: it needs .*4.*; use fewer --threads"):
        on_ray._room({"CPU": 3.0}, job)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'disco-mt\[ray\]'"):
        on_ray._import_ray()


def test_options_of_ray_need_ray() -> None:
    with pytest.raises(UserError, match="--workers and --ray-address are for --runner ray"):
        DistillOptions("teacher", Path("data"), Path("out"), workers=2)
    with pytest.raises(UserError, match="runner must be one of local, ray"):
        DistillOptions("teacher", Path("data"), Path("out"), runner="slurm")  # type: ignore[arg-type]
