"""The files of a corpus: find, hash, read, sample and write them."""

from __future__ import annotations

import gzip
import hashlib
import heapq
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from disco_mt.core.errors import UserError
from disco_mt.core.files import write_text
from disco_mt.text.lines import read_lines

SourceName = Literal["multi30k", "tatoeba", "phrasebook", "libreoffice-help", "mtdata"]
Languages = tuple[str, str]
Pair = tuple[str, str]

ENVIRONMENT = "DISCO_DATA"
LARGE = 2**28  # bytes: a second to read, or ten from a slow disk

Memory = dict[str, list[int | str]]  # path -> size, time of the last change, hash


@dataclass(frozen=True)
class SplitFiles:
    """Parallel files, one sentence per line."""

    source: Path
    target: Path
    references: Path | None = None  # tab-separated, one line per sentence


@dataclass(frozen=True)
class Parts:
    """The parts of a corpus of many corpora. Names are ids of `mtdata list`."""

    folder: str = ""
    """The name of its folder in the folder of corpora."""
    train: tuple[str, ...] = ()
    by_hand: tuple[str, ...] = ()
    """Training corpora that mtdata lacks: put their files next to the others by hand."""
    valid: str = ""
    valid_one_in: int = 0
    """Without `valid`: every nth training pair is held out for validation."""
    test: str = ""

    def __post_init__(self) -> None:
        if not self.folder and not self.train and not self.by_hand:
            return  # no parts
        for name in ("folder", "test"):
            if not getattr(self, name):
                raise UserError(f"data.parts.{name} is missing")
        if bool(self.valid) == bool(self.valid_one_in):
            raise UserError("data.parts needs either valid or valid_one_in")
        if self.valid_one_in and self.valid_one_in < 2:
            raise UserError(f"data.parts.valid_one_in must be at least 2, got {self.valid_one_in}")


@dataclass(frozen=True)
class SourceFiles:
    """The files of a corpus: those of its splits, or raw files to convert; the phrasebook has none."""

    source: SourceName
    languages: Languages
    splits: dict[str, SplitFiles] = field(default_factory=dict)  # references: after the source sentence
    raw: dict[str, Path] = field(default_factory=dict)  # role -> a file that must be converted
    held_out: int = 0  # every nth training pair is held out for validation; 0: none

    def paths(self) -> dict[str, Path]:
        """Role of each file -> the file."""
        named = {
            f"{name}.{role}": path
            for name, files in self.splits.items()
            for role, path in (
                *zip(self.languages, (files.source, files.target), strict=True),
                ("references", files.references),
            )
        }
        return self.raw | {name: path for name, path in named.items() if path is not None}

    def hashes(self, memory: Path | None = None) -> dict[str, str]:
        """The SHA-256 of the content of each file: the same for a file and its .gz.

        memory: a file that caches the hashes of large files, as long as they do not change.
        """
        return _cached_hashes(self.paths(), memory)


def data_folder(folder: Path | None) -> Path | None:
    """The folder of corpora: this one, or that of the environment, or none."""
    from_environment = os.environ.get(ENVIRONMENT)
    return folder or (Path(from_environment) if from_environment else None)


def downloads_folder(folder: Path | None) -> Path:
    """Where downloaded corpora are: in the folder of corpora, or in the user's cache folder."""
    if folder is not None:
        return folder
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "disco-mt" / "corpora"


def only(languages: Languages, fits: bool, rule: str) -> None:
    """Raise an error for languages that a corpus does not have."""
    if not fits:
        raise UserError(f"{rule}; got {', '.join(languages)}")


def existing(path: Path) -> Path | None:
    """The file, plain or .gz."""
    compressed = path.with_name(f"{path.name}.gz")
    return next((file for file in (path, compressed) if file.is_file()), None)


def read_pairs(source: Path, target: Path) -> Iterator[Pair]:
    """The pairs of two files, one at a time."""
    try:
        yield from zip(read_lines(source), read_lines(target), strict=True)
    except ValueError:
        one, other = (sum(1 for _ in read_lines(path)) for path in (source, target))
        raise UserError(
            f"{source} and {target} must have the same number of lines, but have {one:,} and {other:,}"
        ) from None


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Lines as UTF-8 with LF."""
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def write_pairs(directory: Path, split: str, languages: Languages, pairs: Iterable[Pair]) -> None:
    """Both sides of a split, as the files SPLIT.LANGUAGE."""
    first, second = (directory / f"{split}.{language}" for language in languages)
    with (
        first.open("w", encoding="utf-8", newline="\n") as one,
        second.open("w", encoding="utf-8", newline="\n") as other,
    ):
        for source, target in pairs:
            one.write(f"{source}\n")
            other.write(f"{target}\n")


def draw(text: str) -> bytes:
    """A pseudo-random number that is the same on every machine."""
    return hashlib.sha256(text.encode()).digest()


def sample(files: SplitFiles, limit: int) -> Iterator[Pair]:
    """`limit` random pairs in the order of the corpus, which is read twice and not kept in memory."""
    count = sum(1 for _ in read_pairs(files.source, files.target))
    chosen = {*heapq.nsmallest(limit, range(count), key=lambda number: draw(str(number)))}
    pairs = enumerate(read_pairs(files.source, files.target))
    return (pair for number, pair in pairs if number in chosen)


def _cached_hashes(paths: dict[str, Path], memory: Path | None) -> dict[str, str]:
    """The hash of the content of each file. memory: the file of cached hashes."""
    known = _read_cache(memory)
    before = dict(known)
    hashes = {name: _remembered(path, known) for name, path in paths.items()}
    if memory is not None and known != before and memory.parent.is_dir():
        write_text(memory, json.dumps(known, indent=2) + "\n")
    return hashes


def _read_cache(memory: Path | None) -> Memory:
    """The cache; a broken file is ignored."""
    try:
        content = json.loads(memory.read_text(encoding="utf-8")) if memory else {}
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _remembered(path: Path, known: Memory) -> str:
    try:
        now = path.stat()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if now.st_size < LARGE:
        return _content_hash(path)
    key, mark = str(path.resolve()), [now.st_size, now.st_mtime_ns]
    if known.get(key, [])[:2] != mark:
        known[key] = [*mark, _content_hash(path)]
    return str(known[key][2])


def _content_hash(path: Path) -> str:
    """The same for a file and its .gz."""
    try:
        with gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}: {error}") from error
