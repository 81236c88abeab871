"""Which sentences a teacher translates, cut into shards, and the finished shards on disk.

The plan is a function of the data alone. Sentences of like length stand together, so that batches are padded
little, and equal sentences are one.

    OUT.partial/provenance.json               what the translations depend on
    OUT.partial/shards/00000000.safetensors   the translations of one shard, with a checksum
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_file, try_lock, write_text
from disco_mt.data.dataset import Lengths, Side, map_file, read_description

Indices = NDArray[np.int64]

EMPTY, TOO_LONG = -1, -2  # instead of a place: these sources are not translated


@dataclass(frozen=True)
class Plan:
    """Shards are independent: whoever has the data and the teacher can translate any of them at any time."""

    first: Indices  # (sentences,) the first pair that has each; by length, equal lengths as they come
    place: Indices  # (pairs,) where its source stands in `first`, or EMPTY, or TOO_LONG
    shards: tuple[range, ...]  # places in `first`

    def sentences(self, number: int) -> Indices:
        """The pairs whose sources are the sentences of a shard."""
        shard = self.shards[number]
        return self.first[shard.start : shard.stop]


def plan_shards(source: Side, longest: int, shard_size: int) -> Plan:
    """Shards of `shard_size` different sentences with at most `longest` tokens each."""
    place = np.full(len(source.lengths), EMPTY, dtype=np.int64)
    place[source.lengths > longest] = TOO_LONG
    firsts: list[Indices] = []
    sentences = 0
    for pairs in _by_length(source):
        if 0 < source.lengths[pairs[0]] <= longest:
            first, number = _different(source, pairs)
            place[pairs] = sentences + number
            firsts.append(first)
            sentences += len(first)
    starts = range(0, sentences, shard_size)
    shards = tuple(range(start, min(start + shard_size, sentences)) for start in starts)
    return Plan(np.concatenate([np.empty(0, dtype=np.int64), *firsts]), place, shards)


def _by_length(source: Side) -> list[Indices]:
    """The pairs whose sources have the same length, the shortest first, each group in corpus order."""
    order = np.argsort(source.lengths, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(source.lengths[order])) + 1) if len(order) else []


def _different(source: Side, pairs: Indices) -> tuple[Indices, Indices]:
    """Of pairs with sources of one length: those with a new one, and for each pair the number of its own."""
    starts, length = source.offsets[pairs], int(source.lengths[pairs[0]])
    rows = np.empty((len(pairs), length), dtype=source.ids.dtype)
    for column in range(length):  # a matrix of all indices would be four times the size of the sentences
        rows[:, column] = source.ids[starts + column]
    source.release()
    whole = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize)))[:, 0]  # a row is one value
    _, first, which = np.unique(whole, return_index=True, return_inverse=True)
    as_they_come = np.argsort(first)
    number = np.empty_like(as_they_come)
    number[as_they_come] = np.arange(len(first))
    return pairs[first[as_they_come]], number[which.reshape(-1)]


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
