"""The work directory, OUT.partial beside OUT: finished shards survive whatever happens to the process.

OUT.partial/provenance.json   what is translated by whom and how; another command may not go on here
OUT.partial/shards/00000012.safetensors   finished translations, with a checksum
OUT.partial/...   at last the files of the dataset, dataset.json after all others

When dataset.json is there, the shards go and the directory gets its name, OUT.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_file, try_lock, write_text
from disco_mt.data.dataset import Lengths, Side, map_file, read_description

PROVENANCE, SHARDS, FINISHED = "provenance.json", "shards", "dataset.json"

Sentence = Sequence[int]


@contextmanager
def work_directory(out: Path, provenance: dict[str, Any]) -> Iterator[Path]:
    """The directory to work in: a new one, or that of a run with the same provenance["settings"]."""
    work = out.with_name(f"{out.name}.partial")
    work.mkdir(parents=True, exist_ok=True)
    with _locked(work):
        _start_or_go_on(work, provenance)
        try:
            yield work
        except BaseException:
            if not _has_results(work):  # such as a teacher that the engine refuses
                shutil.rmtree(work, ignore_errors=True)
            raise


def finish(work: Path, out: Path) -> None:
    """Make the finished dataset visible. The last step is one rename: a kill before it loses nothing."""
    shutil.rmtree(work / SHARDS, ignore_errors=True)
    _sweep(work)
    os.replace(work, out)


def write_shard(work: Path, number: int, translations: Sequence[Sentence], dtype: np.dtype[Any]) -> None:
    """Keep the translations of a shard: all of them or, if the process ends now, none."""
    offsets = np.cumsum([0, *map(len, translations)], dtype="<i8")
    ids = np.fromiter((word for words in translations for word in words), dtype=dtype)
    metadata = {"sha256": _checksum(number, ids, offsets)}
    with atomic_file(_shard(work, number)) as temporary:
        save_file({"ids": ids, "offsets": offsets}, temporary, metadata=metadata)


def read_shard(work: Path, number: int, sentences: int) -> Side | None:
    """The translations of a shard, or None if they are not there or not as they were written."""
    try:
        with safe_open(_shard(work, number), framework="numpy") as stored:
            ids, offsets = stored.get_tensor("ids"), stored.get_tensor("offsets")
            checksum = (stored.metadata() or {}).get("sha256")
    except (OSError, SafetensorError):
        return None
    whole = checksum == _checksum(number, ids, offsets) and len(offsets) == sentences + 1
    return Side(ids, offsets) if whole else None


def gather(work: Path, shards: Sequence[range], dtype: np.dtype[Any]) -> Side:
    """All shards as one, in a file that is mapped: memory does not grow with the corpus."""
    path = work / SHARDS / "all.bin"
    lengths: list[Lengths] = [np.zeros(1, dtype=np.int32)]
    with path.open("wb") as stream:
        for number, shard in enumerate(shards):
            side = read_shard(work, number, len(shard))
            if side is None:
                raise UserError(f"{_shard(work, number)} has gone or is damaged; give the same command again")
            stream.write(side.ids.tobytes())
            lengths.append(side.lengths)
    return Side(map_file(path, dtype), np.cumsum(np.concatenate(lengths), dtype=np.int64))


def _start_or_go_on(work: Path, provenance: dict[str, Any]) -> None:
    """Write the provenance, or compare it with that of the run which stopped here."""
    file = work / PROVENANCE
    if not file.exists():
        if any(not path.name.startswith(f".{PROVENANCE}.") for path in work.iterdir()):
            raise UserError(
                f"{work} is needed for unfinished work, but it exists and has something else in it; "
                "remove it or choose another --out"
            )
        write_text(file, json.dumps(provenance, indent=2, ensure_ascii=False) + "\n")
    stored = read_description(work, PROVENANCE, "an unfinished distillation")
    different = _differences(stored.get("settings"), provenance["settings"], "")
    if different:
        raise UserError(
            f"{work} has an unfinished distillation that is not this one: {'; '.join(different)}. "
            f"Go on with the command that began it, or remove {work} to start anew"
        )
    _sweep(work)


def _differences(before: Any, now: Any, name: str) -> list[str]:
    """What differs between two nested settings, in words."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = dict.fromkeys([*before, *now])
        return [
            line
            for key in keys
            for line in _differences(before.get(key), now.get(key), f"{name}.{key}".lstrip("."))
        ]
    return [] if before == now else [f"{name} was {before!r}, is {now!r}"]


def _has_results(work: Path) -> bool:
    return (work / FINISHED).exists() or any((work / SHARDS).glob("*.safetensors"))


def _sweep(work: Path) -> None:
    """Remove what a killed process left half-written."""
    for path in [*work.glob(".*"), *(work / SHARDS).glob(".*")]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def _locked(work: Path) -> Iterator[None]:
    """Two processes must not write the same dataset; the lock of a killed one is gone with it."""
    handle = os.open(work, os.O_RDONLY)
    try:
        if not try_lock(handle):
            raise UserError(f"another process is at work in {work}; wait for it or stop it first")
        yield
    finally:
        os.close(handle)


def _shard(work: Path, number: int) -> Path:
    return work / SHARDS / f"{number:08d}.safetensors"


def _checksum(number: int, ids: NDArray[Any], offsets: NDArray[Any]) -> str:
    """Of the content and its place, so that files which have changed names are found out too."""
    digest = hashlib.sha256(f"{number} {ids.dtype.str} {len(ids)} ".encode())
    digest.update(ids.tobytes())
    digest.update(offsets.tobytes())
    return digest.hexdigest()
