"""Shards on any number of machines, with Ray Data.

Machines share nothing but Ray itself: the teacher and the source sentences go out from here, translations
come back to be written here. A worker that dies is started again, and its shard is given out again.
"""

from __future__ import annotations

import logging
import os
import platform
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodingOptions
from disco_mt.distill.teacher import EngineName, Sentences, Translate, open_teacher
from disco_mt.engine.select import EngineOptions
from disco_mt.translator import Translator
from disco_mt.version import __version__

WINDOW = 4096  # shards that are handed to Ray together: bounds what this process holds
ATTEMPTS = 4  # at a shard that ends its worker: it may be the shard
STARTS = 3  # of Ray on this machine, before it is given up
FAILURES = 5  # shards that raise an error before the rest is given up
IDS = np.dtype("<u4")  # on the wire

Translations = list[tuple[int, ...]]
Source = Callable[[int], Sentences]  # the source ids of a shard, by its number


@dataclass(frozen=True)
class Cluster:
    """Where the workers are, and how many."""

    address: str = ""  # of a Ray cluster; empty: RAY_ADDRESS, or else this machine alone
    workers: int = 0  # 0: as many as the cluster has room for


@dataclass(frozen=True)
class Job:
    """All that a worker has to know; it translates as this process would."""

    model: Path
    engine: EngineName
    decoding: DecodingOptions
    batch_tokens: int
    device: str
    threads: int = field(default_factory=torch.get_num_threads)
    version: str = __version__


def translate_on_ray(
    numbers: Sequence[int], source: Source, job: Job, cluster: Cluster
) -> Generator[tuple[int, Translations], None, None]:
    """The translations of shards as they are finished: of all, or a UserError says which are missing."""
    with _connected(cluster, job.threads) as ray:
        workers = cluster.workers or _room(ray.cluster_resources(), job)
        model = ray.put({path.name: path.read_bytes() for path in job.model.iterdir() if path.is_file()})
        attempts = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(_Attempts).remote()
        for start in range(0, len(numbers), WINDOW):
            window = numbers[start : start + WINDOW]
            items = [{"number": number, **_pack(source(number))} for number in window]
            rows = ray.data.from_items(items, override_num_blocks=len(items)).map(
                _Worker,
                fn_constructor_args=(job, [model], attempts),
                # One shard at a time, so that a worker which dies takes no other with it.
                compute=ray.data.ActorPoolStrategy(
                    size=min(workers, len(items)), max_tasks_in_flight_per_actor=1
                ),
                **_needs(job),
            )
            yield from _finished(ray, rows)


def _finished(ray: Any, rows: Any) -> Iterator[tuple[int, Translations]]:
    """What comes back, as it comes; at last those that did not."""
    failures: dict[int, str] = {}
    try:
        for batch in rows.iter_batches(batch_size=1, prefetch_batches=0, batch_format="pyarrow"):
            [row] = batch.to_pylist()
            if not row["error"]:
                yield row["number"], _unpack(row)
                continue
            failures[row["number"]] = row["error"]
            if len(failures) >= FAILURES:
                break
    except ray.exceptions.RayError as error:
        raise UserError(f"Ray has given up: {_last_line(error)}; finished shards are kept") from error
    if failures:
        reasons = "; ".join(f"shard {number}: {reason}" for number, reason in sorted(failures.items()))
        raise UserError(f"not translated: {reasons}. Finished shards are kept: the same command goes on")


class _Attempts:
    """How often each shard was begun; it outlives the workers, one for the whole cluster."""

    def __init__(self) -> None:
        self._begun: Counter[int] = Counter()

    def begin(self, number: int) -> int:
        self._begun[number] += 1
        return self._begun[number]


class _Worker:
    """A process somewhere in the cluster, which has read the teacher once."""

    def __init__(self, job: Job, model: list[Any], attempts: Any) -> None:
        self._job, [self._model], self._attempts = job, model, attempts
        self._translate: Translate | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        try:
            self._refuse_deadly(row["number"])
            self._translate = self._translate or self._open()
            found = self._translate(_unpack(row), lambda tokens: None)
            return {"number": row["number"], **_pack(found), "error": ""}
        except Exception as error:  # it is told where the user sees it
            reason = f"{type(error).__name__} on {platform.node()}: {error}"
            return {"number": row["number"], **_pack([]), "error": reason}

    def _refuse_deadly(self, number: int) -> None:
        """A shard comes here again if it, or something else, has ended its worker."""
        import ray

        if ray.get(self._attempts.begin.remote(number)) > ATTEMPTS:
            raise UserError(
                f"its worker has died {ATTEMPTS} times (no memory left?); use fewer --workers, or start anew "
                "with fewer --batch-tokens or a smaller --shard-size"
            )

    def _open(self) -> Translate:
        import ray

        job = self._job
        if job.version != __version__:
            raise UserError(f"disco-mt {__version__} is installed there, but {job.version} here")
        torch.set_num_threads(job.threads)  # as many as here, so that float32 rounds as it does here
        with TemporaryDirectory(prefix="disco.") as folder:
            for name, content in ray.get(self._model).items():
                (Path(folder) / name).write_bytes(content)
            teacher = Translator.from_pretrained(Path(folder), EngineOptions(job.device))
            with open_teacher(teacher, job.engine, job.decoding, job.batch_tokens, Path(folder)) as translate:
                return translate  # all is in memory: the files may go


@contextmanager
def _connected(cluster: Cluster, threads: int) -> Iterator[Any]:
    """Ray, connected to a cluster or started on this machine, and left again."""
    address = cluster.address or os.environ.get("RAY_ADDRESS") or "local"
    ray = _import_ray(alone=address == "local")
    more: dict[str, Any] = {}
    if address == "local":
        cpus = max(os.cpu_count() or 1, cluster.workers * threads)
        niceness = {"worker_niceness": 0}  # workers do not stand back behind other processes
        more = {"num_cpus": cpus, "include_dashboard": False, "_system_config": niceness}
    try:
        _start(ray, address, more)
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False  # the progress is shown here
        context.print_on_execution_start = False
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        yield ray
    finally:
        ray.shutdown()


def _start(ray: Any, address: str, more: dict[str, Any]) -> None:
    """On a busy machine Ray's own parts may not find each other in the time that they give themselves."""
    for attempt in reversed(range(STARTS)):
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **more)
        except Exception as error:  # Ray raises all kinds, bare ones too
            ray.shutdown()
            if not attempt or address != "local":
                raise UserError(f"cannot connect to Ray at {address!r}: {_last_line(error)}") from error
        else:
            return


def _import_ray(alone: bool) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing about a user's work goes anywhere
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # else it is alarmed by how Ray Data uses it
    if alone:  # on the loopback interface only; the name is of the systems where that is the rule
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise UserError("--runner ray needs Ray, which is missing: pip install 'disco-mt[ray]'") from error
    return ray


def _needs(job: Job) -> dict[str, Any]:
    """What Ray is to set apart for each worker."""
    return {"num_cpus": job.threads, **({"num_gpus": 1} if job.device.startswith("cuda") else {})}


def _room(resources: dict[str, float], job: Job) -> int:
    """How many workers the cluster has room for, now."""
    has = {"num_cpus": resources.get("CPU", 0), "num_gpus": resources.get("GPU", 0)}
    room = min(int(has[name] // need) for name, need in _needs(job).items())
    if room < 1:
        raise UserError(
            f"the Ray cluster has no room for a worker: it needs {_needs(job)}, there are {has}; "
            "use fewer --threads, or another --device"
        )
    return room


def _pack(sentences: Sequence[Sequence[int]]) -> dict[str, bytes]:
    ids = np.fromiter((word for words in sentences for word in words), dtype=IDS)
    return {
        "ids": ids.tobytes(),
        "lengths": np.array([len(words) for words in sentences], dtype=IDS).tobytes(),
    }


def _unpack(row: dict[str, Any]) -> Any:
    lengths = np.frombuffer(row["lengths"], dtype=IDS)
    sentences = np.split(np.frombuffer(row["ids"], dtype=IDS), np.cumsum(lengths)[:-1])
    return [words.tolist() for words in sentences[: len(lengths)]]


def _last_line(error: Exception) -> str:
    """What a long remote traceback comes down to."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
