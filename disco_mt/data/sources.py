"""Known corpora: which files of a folder they are, and how they become what `disco prepare` reads.

multi30k     train, val, test_2016_flickr .en .de .fr (image captions), plain or .gz
tatoeba      train, dev, test .en .de, plain or .gz, with {dev,test}.all-references.tsv (the English sentence,
             then every translation); or the tab-separated file that people download, which is split here
phrasebook   generated; needs no files
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from disco_mt.data.phrasebook import write_phrasebook
from disco_mt.errors import UserError
from disco_mt.files import atomic_directory
from disco_mt.text.lines import read_lines

SourceName = Literal["multi30k", "tatoeba", "phrasebook"]
Languages = tuple[str, str]

ENVIRONMENT = "DISCO_DATA"
HELD_OUT = 1000  # English sentences of each of valid and test of a download, or a twentieth of a small one

_SPLITS = {
    "multi30k": {"train": "train", "valid": "val", "test": "test_2016_flickr"},
    "tatoeba": {"train": "train", "valid": "dev", "test": "test"},
}
_WHERE = {
    "multi30k": "https://github.com/multi30k/dataset, the files train, val and test_2016_flickr of its "
    "data/task1/raw",
    "tatoeba": "sentence pairs of tatoeba.org as a tab-separated file: https://www.manythings.org/anki or "
    "https://tatoeba.org/downloads; put that file alone into the folder",
}


@dataclass(frozen=True)
class SplitFiles:
    """Parallel files, a sentence a line."""

    source: Path
    target: Path
    references: Path | None = None  # tab-separated, a line a sentence


@dataclass(frozen=True)
class SourceFiles:
    """Where a corpus is: the files of its splits, or one download, or (phrasebook) nowhere."""

    source: SourceName
    languages: Languages
    splits: dict[str, SplitFiles] = field(default_factory=dict)  # references begin with the source sentence
    download: Path | None = None  # source TAB target, a pair a line

    def paths(self) -> dict[str, Path]:
        """What each file is -> the file."""
        if self.download is not None:
            return {"download": self.download}
        named = {
            f"{name}.{role}": path
            for name, files in self.splits.items()
            for role, path in (
                *zip(self.languages, (files.source, files.target), strict=True),
                ("references", files.references),
            )
        }
        return {name: path for name, path in named.items() if path is not None}

    def hashes(self) -> dict[str, str]:
        """The SHA-256 of what is in each file: the same for a file and its .gz."""
        return {name: _content_hash(path) for name, path in self.paths().items()}


def data_folder(given: Path | None) -> Path | None:
    """The folder of corpora: the one given, or that of the environment, or none."""
    from_environment = os.environ.get(ENVIRONMENT)
    return given or (Path(from_environment) if from_environment else None)


def find_files(source: SourceName, folder: Path | None, languages: Languages) -> SourceFiles:
    """The files of a corpus in `folder`, or in the folder of its own name there; missing ones are named."""
    if source == "phrasebook":
        _only(languages, languages == ("en", "de"), "phrasebook is English-German: languages must be en, de")
        return SourceFiles(source, languages)
    if source == "tatoeba":
        _only(languages, languages[0] == "en", "tatoeba is split by English sentence: the source must be en")
    here = _corpus_folder(source, folder, languages)
    if source == "tatoeba" and (download := _download(here)):
        return SourceFiles(source, languages, download=download)
    splits = {
        split: _split_files(source, here, split, stem, languages) for split, stem in _SPLITS[source].items()
    }
    return SourceFiles(source, languages, splits)


def text_files(files: SourceFiles, out: Path, limit: int = 0) -> dict[str, SplitFiles]:
    """The three splits as `disco prepare` reads them; what is not so yet is written into the directory `out`.

    limit: use a sample of so many training pairs (0: all); larger samples have the smaller ones in them.
    """
    if not out.exists():
        with atomic_directory(out) as directory:
            _convert(files, directory, limit)
    return {split: _ready(files, split, out) for split in ("train", "valid", "test")}


def _only(languages: Languages, fits: bool, rule: str) -> None:
    if not fits:
        raise UserError(f"{rule}; got {', '.join(languages)}")


def _corpus_folder(source: str, folder: Path | None, languages: Languages) -> Path:
    """`folder/NAME` if there is one, else `folder` itself (or the downloaded file)."""
    if folder is None:
        raise UserError(
            f"the corpus {source} is needed: give its folder with --data FOLDER or in the environment "
            f"variable {ENVIRONMENT}. Where to get it: {_WHERE[source]}"
        )
    names = [source, f"{source}-{'-'.join(languages)}"]
    for candidate in (*(folder / name for name in reversed(names)), folder):
        if candidate.exists():
            return candidate
    raise UserError(f"there is no folder {folder}: give the folder of the corpus {source} with --data")


def _download(here: Path) -> Path | None:
    """The tab-separated file, if `here` is one or has one and no files of splits."""
    if here.is_file():
        return here
    if _existing(here / "train.en") is not None:
        return None
    found = [
        path for suffix in ("txt", "tsv") for path in here.glob(f"*.{suffix}*") if path.name[0] not in "._"
    ]
    if len(found) > 1:
        names = ", ".join(sorted(path.name for path in found))
        raise UserError(f"{here} has several tab-separated files ({names}); give one with --data FILE")
    return found[0] if found else None


def _split_files(source: str, here: Path, split: str, stem: str, languages: Languages) -> SplitFiles:
    sides = [_existing(here / f"{stem}.{language}") for language in languages]
    for side, language in zip(sides, languages, strict=True):
        if side is None:
            raise UserError(
                f"the corpus {source} is not complete: there is no {stem}.{language} (or .gz) in {here}. "
                f"Where to get it: {_WHERE[source]}"
            )
    references = None if split == "train" else _existing(here / f"{stem}.all-references.tsv")
    return SplitFiles(cast(Path, sides[0]), cast(Path, sides[1]), references)


def _existing(path: Path) -> Path | None:
    """The file, plain or .gz."""
    packed = path.with_name(f"{path.name}.gz")
    return next((each for each in (path, packed) if each.is_file()), None)


def _convert(files: SourceFiles, directory: Path, limit: int) -> None:
    """Write what cannot be read as it is: a generated corpus, a download, references, a sample."""
    if files.source == "phrasebook":
        write_phrasebook(directory / "all")
        for path in list((directory / "all").iterdir()):
            path.rename(directory / path.name)
        (directory / "all").rmdir()
    elif files.download is not None:
        _write_download(files.download, files.languages, directory)
    for split, each in files.splits.items():
        if each.references is not None:
            columns = _without_source(each.references, each.source)
            _write(directory / f"{split}.references.tsv", ("\t".join(line) for line in columns))
    if limit:
        pairs = _sample(_read_pairs(_ready(files, "train", directory)), limit)
        for side, language in enumerate(files.languages):
            _write(directory / f"train.{language}", (pair[side] for pair in pairs))


def _ready(files: SourceFiles, split: str, out: Path) -> SplitFiles:
    """The files of a split: those in `out`, or where there are none the corpus' own."""
    own = files.splits.get(split)
    source, target = (out / f"{split}.{language}" for language in files.languages)
    references = out / f"{split}.references.tsv"
    return SplitFiles(
        source if own is None or source.exists() else own.source,
        target if own is None or target.exists() else own.target,
        references if references.exists() else None,
    )


def _without_source(references: Path, source: Path) -> Iterator[list[str]]:
    """The translations of each line; the sentence before them must be that of the source file."""
    sentences = read_lines(source)
    for number, line in enumerate(read_lines(references), start=1):
        sentence, *translations = line.split("\t")
        if sentence != next(sentences, None) or not any(translations):
            raise UserError(
                f"{references}, line {number}: expected the sentence of this line in {source}, then its "
                f"translations, separated by tabs; got {line!r}"
            )
        yield translations


def _write_download(path: Path, languages: Languages, directory: Path) -> None:
    train, *held_out = split_by_source(_pairs(path))
    for side, language in enumerate(languages):
        _write(directory / f"train.{language}", (pair[side] for pair in train))
    for split, sentences in zip(("valid", "test"), held_out, strict=True):
        _write(directory / f"{split}.{languages[0]}", (source for source, _ in sentences))
        _write(directory / f"{split}.{languages[1]}", (targets[0] for _, targets in sentences))
        _write(directory / f"{split}.references.tsv", ("\t".join(targets) for _, targets in sentences))


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Pairs of a download: source, target[, attribution]; or, from tatoeba.org, each after its number."""
    for number, line in enumerate(read_lines(path), start=1):
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) >= 4 and columns[0].isdigit() and columns[2].isdigit():
            columns = [columns[1], columns[3]]
        if len(columns) < 2 or not all(columns[:2]):
            raise UserError(f"{path}, line {number}: expected source TAB target, got {line!r}")
        yield columns[0], columns[1]


Pairs = list[tuple[str, str]]
WithReferences = list[tuple[str, list[str]]]


def split_by_source(pairs: Iterable[tuple[str, str]]) -> tuple[Pairs, WithReferences, WithReferences]:
    """Train, valid, test: no source sentence is in two of them, no held-out translation is in train.

    Which sentences are held out follows from the sentences alone (their hashes), so a newer download has, but
    for a few, the same.
    """
    translations: dict[str, list[str]] = {}
    for source, target in pairs:
        known = translations.setdefault(source, [])
        if target not in known:
            known.append(target)
    size = min(HELD_OUT, len(translations) // 20)
    if not size:
        raise UserError(f"{len(translations)} different sentences are too few to hold some out; expected 20")
    drawn = sorted(translations, key=_draw)[: 2 * size]
    held_out = set(drawn)
    seen = {target for source in drawn for target in translations[source]}
    train = [
        (source, target)
        for source, targets in translations.items()
        if source not in held_out
        for target in targets
        if target not in seen
    ]
    with_references = [(source, translations[source]) for source in drawn]
    return train, with_references[:size], with_references[size:]


def _read_pairs(files: SplitFiles) -> Pairs:
    try:
        return list(zip(read_lines(files.source), read_lines(files.target), strict=True))
    except ValueError:
        raise UserError(f"{files.source} and {files.target} must have the same number of lines") from None


def _sample(pairs: Pairs, limit: int) -> Pairs:
    """`limit` pairs in the order of the corpus."""
    chosen = sorted(range(len(pairs)), key=lambda number: _draw(str(number)))[:limit]
    return [pairs[number] for number in sorted(chosen)]


def _draw(text: str) -> bytes:
    """A draw that everyone repeats."""
    return hashlib.sha256(text.encode()).digest()


def _content_hash(path: Path) -> str:
    try:
        with gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"cannot read {path}: {error}") from error


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in lines)
