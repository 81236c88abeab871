"""Ray gives what one process gives, whatever happens to its workers: a local Ray of two, started here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from disco_mt.core.errors import UserError
from disco_mt.distill import on_ray
from disco_mt.distill import run as run_module
from disco_mt.distill.run import DistillOptions, distill
from disco_mt.distill.shards import write_shard
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


def listening(process: int) -> set[str]:
    """Addresses, in hexadecimal, on which the processes below wait for connections."""
    sockets: dict[str, str] = {}
    for table in ("tcp", "tcp6"):
        rows = [line.split() for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
        sockets |= {f"socket:[{row[9]}]": row[1].split(":")[0] for row in rows if row[3] == "0A"}
    found = set()
    for each in descendants(process):
        for handle in Path(f"/proc/{each}/fd").glob("*"):
            with suppress(OSError):  # closed in the meantime
                found.add(sockets.get(os.readlink(handle), ""))
    return found - {""}


def finish_some(options: DistillOptions, shards: int) -> None:
    """So many shards in this process, then no more."""

    class Stopped(BaseException):
        pass

    def write(work: Path, number: int, *rest: Any) -> None:
        if len(list((work / "shards").glob("*.safetensors"))) == shards:
            raise Stopped
        write_shard(work, number, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "write_shard", write)
        with pytest.raises(Stopped):
            distill(options, quiet=True)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks into /proc, which Linux has")
def test_a_worker_killed_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    """Two workers go on where one process stopped; one of them is killed at work."""
    make_teacher(tmp_path / "teacher", make_dataset(tmp_path / "data"), steps=60)
    here = DistillOptions(str(tmp_path / "teacher"), tmp_path / "data", tmp_path / "here", beam=3)
    here = replace(here, shard_size=4, batch_tokens=128)
    distill(here, quiet=True)
    out, shards = tmp_path / "out", tmp_path / "out.partial" / "shards"
    finish_some(replace(here, out=out), 3)
    before = {path.name: path.stat().st_mtime_ns for path in shards.iterdir()}

    command = [sys.executable, "-m", "disco_mt", "distill", *SETTINGS, "--shard-size", "4"]
    command += ["--model", here.model, "--data", str(here.data), "--out", str(out)]
    command += ["--runner", "ray", "--workers", "2"]
    process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL)
    killed: list[int] = []
    while process.poll() is None and not killed:
        if len(list(shards.glob("*.safetensors"))) >= 5:
            killed = workers(process.pid)[:1]
            for each in killed:
                os.kill(each, signal.SIGKILL)
        time.sleep(0.002)
    assert killed
    assert not out.exists()  # it was at work
    assert {name: (shards / name).stat().st_mtime_ns for name in before} == before
    assert {address[-8:] for address in listening(process.pid)} == {"0100007F"}  # 127.0.0.1 alone
    assert process.wait(timeout=300) == 0
    assert contents(out) == contents(here.out)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("out")] == ["out"]


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
        on_ray._import_ray(alone=True)


def test_options_of_ray_need_ray() -> None:
    with pytest.raises(UserError, match="--workers and --ray-address are for --runner ray"):
        DistillOptions("teacher", Path("data"), Path("out"), workers=2)
    with pytest.raises(UserError, match="runner must be one of local, ray"):
        DistillOptions("teacher", Path("data"), Path("out"), runner="slurm")  # type: ignore[arg-type]
