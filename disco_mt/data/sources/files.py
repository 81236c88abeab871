"""The files of a corpus, and what every source does with them: find, hash, read, sample, write."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from disco_mt.errors import UserError
from disco_mt.text.lines import read_lines

SourceName = Literal["multi30k", "tatoeba", "phrasebook", "libreoffice-help"]
Languages = tuple[str, str]
Pair = tuple[str, str]

ENVIRONMENT = "DISCO_DATA"


@dataclass(frozen=True)
class SplitFiles:
    """Parallel files, a sentence a line."""

    source: Path
    target: Path
    references: Path | None = None  # tab-separated, a line a sentence


@dataclass(frozen=True)
class SourceFiles:
    """Where a corpus is: files of its splits, or files that splits are made from, or (phrasebook) nowhere."""

    source: SourceName
    languages: Languages
    splits: dict[str, SplitFiles] = field(default_factory=dict)  # references begin with the source sentence
    raw: dict[str, Path] = field(default_factory=dict)  # what each file is -> a file that must be converted

    def paths(self) -> dict[str, Path]:
        """What each file is -> the file."""
        named = {
            f"{name}.{role}": path
            for name, files in self.splits.items()
            for role, path in (
                *zip(self.languages, (files.source, files.target), strict=True),
                ("references", files.references),
            )
        }
        return self.raw | {name: path for name, path in named.items() if path is not None}

    def hashes(self) -> dict[str, str]:
        """The SHA-256 of what is in each file: the same for a file and its .gz."""
        return {name: _content_hash(path) for name, path in self.paths().items()}


def data_folder(given: Path | None) -> Path | None:
    """The folder of corpora: the one given, or that of the environment, or none."""
    from_environment = os.environ.get(ENVIRONMENT)
    return given or (Path(from_environment) if from_environment else None)


def downloads_folder(folder: Path | None) -> Path:
    """Where a corpus that can be downloaded is or goes: the folder of corpora, or the user's cache folder."""
    if folder is not None:
        return folder
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "disco-mt" / "corpora"


def only(languages: Languages, fits: bool, rule: str) -> None:
    """Refuse languages that a corpus has not."""
    if not fits:
        raise UserError(f"{rule}; got {', '.join(languages)}")


def existing(path: Path) -> Path | None:
    """The file, plain or .gz."""
    packed = path.with_name(f"{path.name}.gz")
    return next((each for each in (path, packed) if each.is_file()), None)


def read_pairs(files: SplitFiles) -> list[Pair]:
    """All pairs of a split."""
    try:
        return list(zip(read_lines(files.source), read_lines(files.target), strict=True))
    except ValueError:
        raise UserError(f"{files.source} and {files.target} must have the same number of lines") from None


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
    """A draw that everyone repeats."""
    return hashlib.sha256(text.encode()).digest()


def sample(pairs: list[Pair], limit: int) -> list[Pair]:
    """`limit` pairs in the order of the corpus."""
    chosen = sorted(range(len(pairs)), key=lambda number: draw(str(number)))[:limit]
    return [pairs[number] for number in sorted(chosen)]


def _content_hash(path: Path) -> str:
    try:
        with gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}: {error}") from error
