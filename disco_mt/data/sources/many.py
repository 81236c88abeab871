"""A corpus of many corpora, such as the training data of a WMT task, downloaded with mtdata.

FOLDER/train-parts/ID.eng, .deu    each training corpus, one sentence per line, plain or .gz
FOLDER/tests/ID.eng, .deu          the validation and the test set

These are the names that mtdata gives them; a folder that already has these files (a mirror) is used as it is.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from disco_mt.core.errors import UserError
from disco_mt.data.sources.files import (
    Languages,
    Pair,
    Parts,
    SourceFiles,
    SplitFiles,
    downloads_folder,
    existing,
    read_pairs,
    write_pairs,
)

TRAIN, TESTS = "train-parts", "tests"
LOG = "mtdata.log"
_DOWNLOAD = ".mtdata"  # where mtdata writes; an interrupted download continues when it runs again
_CODES = {"en": "eng", "de": "deu", "fr": "fra", "ro": "ron", "zh": "zho"}  # as mtdata writes them


def find_parts(folder: Path | None, languages: Languages, parts: Parts) -> SourceFiles:
    """The files of all parts; an error names missing ones."""
    here = _folder(folder, parts)
    missing = [
        path for paths in _wanted(here, languages, parts).values() for path in paths if not existing(path)
    ]
    if missing:
        raise UserError(
            f"the corpus {parts.folder} is not complete: {here} has no {_shown(missing, here)} (or .gz)"
        )
    files = {
        name: (existing(first) or first, existing(second) or second)
        for name, (first, second) in _wanted(here, languages, parts).items()
    }
    raw = {
        f"train.{name}.{language}": path
        for name in (*parts.train, *parts.by_hand)
        for language, path in zip(languages, files[name], strict=True)
    }
    held_out = {"valid": parts.valid, "test": parts.test}
    splits = {split: SplitFiles(*files[name]) for split, name in held_out.items() if name}
    return SourceFiles("mtdata", languages, splits, raw, parts.valid_one_in)


def obtain_parts(folder: Path | None, languages: Languages, parts: Parts) -> bool:
    """Download missing parts with mtdata; returns whether there were any."""
    here = _folder(folder, parts)
    missing = {
        name: paths
        for name, paths in _wanted(here, languages, parts).items()
        if not all(existing(path) for path in paths)
    }
    for name in parts.by_hand:  # before hours of downloading
        if name in missing:
            files = " and ".join(map(str, missing[name]))
            raise UserError(
                f"mtdata cannot download the corpus {name}: put it into {files}, one sentence per line "
                "(docs/data-and-suites.md says where to get it)"
            )
    if missing:
        _download(here, languages, parts, list(missing))
    return bool(missing)


def write_train(files: SourceFiles, directory: Path) -> None:
    """All training corpora as one; if `held_out`, every nth pair becomes the validation set."""
    if not files.held_out:
        write_pairs(directory, "train", files.languages, _all_pairs(files))
        return
    for split in ("train", "valid"):
        wanted = split == "valid"
        numbered = enumerate(_all_pairs(files), start=1)
        pairs = (pair for number, pair in numbered if (number % files.held_out == 0) is wanted)
        write_pairs(directory, split, files.languages, pairs)


def _all_pairs(files: SourceFiles) -> Iterator[Pair]:
    sides = [
        [path for name, path in files.raw.items() if name.endswith(f".{language}")]
        for language in files.languages
    ]
    for source, target in zip(*sides, strict=True):
        yield from read_pairs(source, target)


def _folder(folder: Path | None, parts: Parts) -> Path:
    """The folder of the parts: `folder` itself if it contains them, else one inside it."""
    if folder is not None and not folder.is_dir():
        raise UserError(
            f"there is no folder {folder}: give the folder of the corpus {parts.folder} with --data"
        )
    if folder is not None and (folder / TRAIN).is_dir():
        return folder
    return downloads_folder(folder) / parts.folder


def _wanted(here: Path, languages: Languages, parts: Parts) -> dict[str, tuple[Path, Path]]:
    """Id of each part -> the files of both sides."""
    codes = [_CODES.get(language, language) for language in languages]
    places = dict.fromkeys((*parts.train, *parts.by_hand), here / TRAIN)
    places |= {name: here / TESTS for name in (parts.valid, parts.test) if name}
    return {
        name: (place / f"{name}.{codes[0]}", place / f"{name}.{codes[1]}") for name, place in places.items()
    }


def _download(here: Path, languages: Languages, parts: Parts, names: list[str]) -> None:
    """Run mtdata in a separate folder, then move the complete files."""
    if importlib.util.find_spec("mtdata") is None:
        raise UserError(
            f"{parts.folder} is downloaded with mtdata, which is missing: pip install disco-mt[wmt]"
            f"; or put its files into {here} (docs/data-and-suites.md says which)"
        )
    try:
        (here / _DOWNLOAD).mkdir(parents=True, exist_ok=True)
        code = _run_mtdata(here, languages, parts, names)
        for name, paths in _wanted(here, languages, parts).items():
            if name in names and not code:
                _move(here, paths)
    except OSError as error:
        raise UserError(f"cannot write {here}: {error.strerror or error}") from error
    if code:
        raise UserError(
            f"mtdata could not download {', '.join(names)} into {here}: {_last_line(here / LOG)} "
            f"(all that it said: {here / LOG}). What it has is kept; run this again to go on"
        )


def _run_mtdata(here: Path, languages: Languages, parts: Parts, names: list[str]) -> int:
    training = [name for name in names if name in parts.train]
    tests = [name for name in names if name not in parts.train]
    pair = "-".join(_CODES.get(language, language) for language in languages)
    options = ["-l", pair, "-o", str(here / _DOWNLOAD), "--fail"]
    options += ["-tr", *training] if training else []
    options += ["-ts", *tests] if tests else []
    with (here / LOG).open("w", encoding="utf-8") as log:
        command = [sys.executable, "-m", "mtdata", "--no-pbar", "get", *options]
        return subprocess.run(command, stdout=log, stderr=log, check=False).returncode


def _move(here: Path, paths: tuple[Path, Path]) -> None:
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        os.replace(here / _DOWNLOAD / path.relative_to(here), path)


def _shown(missing: list[Path], here: Path) -> str:
    names = [str(path.relative_to(here)) for path in missing]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "it gave no reason")
