"""A prepared corpus on disk: token ids in flat, memory-mapped files, so that it need not fit into memory.

A dataset directory has dataset.json (format version, text, splits), the tokenizers, and for each split
  <split>.source.bin  the concatenated ids of all sentences, without EOS (uint16, or uint32 if ids are large)
  <split>.source.idx  int64: sentence i is ids[offsets[i] : offsets[i + 1]]
and the same for the target; for valid and test also the raw lines (<split>.source.txt, <split>.target.txt)
and, if there are several translations, <split>.references.tsv (tab-separated, one line per sentence).
"""

from __future__ import annotations

import json
import mmap
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from disco_mt.core.errors import UserError
from disco_mt.core.files import sha256
from disco_mt.text.lines import read_lines
from disco_mt.text.pair import TextPair

FORMAT_VERSION = 1

Ids = NDArray[Any]  # uint16 or uint32, as the vocabulary needs
Lengths = NDArray[np.int32]


@dataclass(frozen=True)
class Side:
    """The sentences of one language of a split."""

    ids: Ids  # (tokens,)
    offsets: NDArray[np.int64]  # (sentences + 1,)

    @cached_property
    def lengths(self) -> Lengths:
        """Tokens of each sentence, without EOS."""
        lengths = np.empty(len(self.offsets) - 1, dtype=np.int32)
        np.subtract(self.offsets[1:], self.offsets[:-1], out=lengths, casting="same_kind")
        self.release()
        return lengths

    def __getitem__(self, index: int) -> Ids:
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def release(self) -> None:
        """Release the mapped pages that were read, so that resident memory does not grow with the corpus.

        They stay in the system's cache as long as it has room.
        """
        for array in (self.ids, self.offsets):
            if isinstance(array.base, memoryview) and isinstance(array.base.obj, mmap.mmap):
                array.base.obj.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True)
class Split:
    """Sentence pairs as ids, and for valid and test as text."""

    directory: Path
    name: str
    source: Side
    target: Side

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    @property
    def source_lengths(self) -> Lengths:
        """Source tokens of each pair, without EOS."""
        return self.source.lengths

    @property
    def target_lengths(self) -> Lengths:
        """Target tokens of each pair, without EOS."""
        return self.target.lengths

    def pair(self, index: int) -> tuple[Ids, Ids]:
        """Source and target ids of one pair, without EOS."""
        return self.source[index], self.target[index]

    def source_text(self) -> list[str]:
        """The original source lines (valid and test only)."""
        return self._text("source")

    def target_text(self) -> list[str]:
        """The original target lines (valid and test only)."""
        return self._text("target")

    def references(self) -> list[list[str]]:
        """All known translations of each sentence; only the target if there are no others."""
        path = self.directory / f"{self.name}.references.tsv"
        if not path.exists():
            return [[line] for line in self.target_text()]
        return [split_references(line) for line in read_lines(path)]

    def _text(self, side: str) -> list[str]:
        path = self.directory / f"{self.name}.{side}.txt"
        if not path.exists():
            raise UserError(f"{path} is missing: the text of {self.name} is not kept in {self.directory}")
        return list(read_lines(path))


@dataclass(frozen=True)
class Dataset:
    """An open dataset directory. "valid" and "test" are optional."""

    path: Path
    text: TextPair
    splits: dict[str, Split]
    description: dict[str, Any] = field(default_factory=dict)  # of the text, as in dataset.json

    @staticmethod
    def open(path: Path) -> Dataset:
        """Map the files of a dataset directory; only the offsets are read."""
        description = read_description(path, "dataset.json", "a dataset directory (made by `disco prepare`)")
        version = description.get("format_version")
        if not isinstance(version, int) or version > FORMAT_VERSION:
            raise UserError(
                f"{path} has dataset format version {version}, this Disco reads up to {FORMAT_VERSION}; "
                "upgrade disco-mt or prepare the dataset again"
            )
        try:
            text = TextPair.load(path, description["text"])
            splits = {name: _open_split(path, name, entry) for name, entry in description["splits"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{path / 'dataset.json'} is incomplete ({error}); prepare the dataset again"
            ) from error
        if "train" not in splits:
            raise UserError(f"{path} has no train split; prepare the dataset again")
        return Dataset(path, text, splits, description["text"])

    @property
    def fingerprint(self) -> str:
        """Identifies the contents: dataset.json has the SHA-256 of every other file."""
        return sha256(self.path / "dataset.json")


def read_description(directory: Path, name: str, expected: str) -> dict[str, Any]:
    """The JSON object in `directory/name`, or an error that `directory` is not what was `expected`."""
    path = directory / name
    if not path.is_file():
        raise UserError(f"{directory} is not {expected}: {path} is missing")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} must be a JSON object, found {type(content).__name__}")
    return content


def split_references(line: str) -> list[str]:
    """The translations in a tab-separated line; an empty line is one empty translation."""
    return [reference for reference in line.split("\t") if reference] or [""]


def id_type(vocabulary_size: int) -> np.dtype[Any]:
    """The smallest type for the ids of a vocabulary (little-endian, so that a directory can be moved)."""
    return np.dtype("<u2" if vocabulary_size <= 2**16 else "<u4")


def map_file(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The numbers in a file, read on access. An empty file cannot be mapped."""
    with path.open("rb") as stream:
        if not path.stat().st_size:
            return np.empty(0, dtype=dtype)
        return np.frombuffer(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ), dtype=dtype)


def _open_split(directory: Path, name: str, entry: dict[str, Any]) -> Split:
    source = _open_side(directory, f"{name}.source", entry["pairs"], entry["source"])
    target = _open_side(directory, f"{name}.target", entry["pairs"], entry["target"])
    return Split(directory, name, source, target)


def _open_side(directory: Path, stem: str, pairs: int, entry: dict[str, Any]) -> Side:
    ids = _map(directory / f"{stem}.bin", np.dtype(entry["type"]), entry["tokens"])
    offsets = _map(directory / f"{stem}.idx", np.dtype("<i8"), pairs + 1)
    if offsets[0] != 0 or offsets[-1] != len(ids):
        raise UserError(f"{directory / stem}.idx does not belong to {stem}.bin; prepare the dataset again")
    return Side(ids, offsets)


def _map(path: Path, dtype: np.dtype[Any], items: int) -> NDArray[Any]:
    """Map a flat file of numbers after checking its size."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; prepare the dataset again") from error
    if size != items * dtype.itemsize:
        raise UserError(
            f"{path} should have {items * dtype.itemsize} bytes, found {size}; the file is damaged: "
            "prepare the dataset again"
        )
    return map_file(path, dtype)
