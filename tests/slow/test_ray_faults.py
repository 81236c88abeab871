"""What Ray does with other engines, and with a shard that ends every worker it meets."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodingOptions
from disco_mt.distill import on_ray
from disco_mt.distill.run import DistillOptions, distill
from tiny_distill import contents, make_dataset, make_teacher

ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")


class Deadly(on_ray._Worker):
    """Ends its process at shard 3."""

    def _refuse_deadly(self, number: int) -> None:
        super()._refuse_deadly(number)
        if number == 3:
            os.kill(os.getpid(), signal.SIGKILL)


def test_ctranslate2_on_ray_gives_what_it_gives_here(tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra 'bench' is not installed")
    make_teacher(tmp_path / "teacher", make_dataset(tmp_path / "data"), steps=60)
    options = DistillOptions(
        str(tmp_path / "teacher"), tmp_path / "data", tmp_path / "here", engine="ctranslate2", shard_size=16
    )
    distill(options, quiet=True)
    distill(replace(options, out=tmp_path / "ray", runner="ray", workers=2), quiet=True)
    assert contents(tmp_path / "ray") == contents(tmp_path / "here")
    assert not ray.is_initialized()


def test_a_shard_that_ends_every_worker_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_teacher(tmp_path / "teacher", make_dataset(tmp_path / "data"))
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(on_ray, "_Worker", Deadly)
    job = on_ray.Job(tmp_path / "teacher", "torch", DecodingOptions(beam=1), 128, "cpu", threads=1)
    found: list[int] = []
    finished = on_ray.translate_on_ray(
        range(8), lambda number: [[7, 8]] * (number + 1), job, on_ray.Cluster(workers=2)
    )
    with pytest.raises(UserError, match=r"not translated: shard 3: UserError .* worker has died 4 times"):
        found.extend(number for number, _ in finished)
    assert sorted(found) == [0, 1, 2, 4, 5, 6, 7]
    assert not ray.is_initialized()
