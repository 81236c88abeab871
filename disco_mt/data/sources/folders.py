"""Corpora that you put into a folder by hand: which files are expected there."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from disco_mt.core.errors import UserError
from disco_mt.data.sources.files import ENVIRONMENT, Languages, SourceFiles, SourceName, SplitFiles, existing

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


def find_in_folder(source: SourceName, folder: Path | None, languages: Languages) -> SourceFiles:
    """The files of multi30k or tatoeba in `folder`, or in a folder of its name there."""
    here = _corpus_folder(source, folder, languages)
    if source == "tatoeba" and (download := _download(here)):
        return SourceFiles(source, languages, raw={"download": download})
    splits = {
        split: _split_files(source, here, split, stem, languages) for split, stem in _SPLITS[source].items()
    }
    return SourceFiles(source, languages, splits)


def folder_names(source: str, languages: Languages) -> list[str]:
    """The names that the folder of a corpus may have, preferred one first."""
    return [f"{source}-{'-'.join(languages)}", source]


def _corpus_folder(source: str, folder: Path | None, languages: Languages) -> Path:
    """`folder/NAME` if there is one, else `folder` itself (or the downloaded file)."""
    if folder is None:
        raise UserError(
            f"the corpus {source} is needed: give its folder with --data FOLDER or in the environment "
            f"variable {ENVIRONMENT}. Where to get it: {_WHERE[source]}"
        )
    for candidate in (*(folder / name for name in folder_names(source, languages)), folder):
        if candidate.exists():
            return candidate
    raise UserError(f"there is no folder {folder}: give the folder of the corpus {source} with --data")


def _download(here: Path) -> Path | None:
    """The tab-separated file, if `here` is one, or contains one and no files of splits."""
    if here.is_file():
        return here
    if existing(here / "train.en") is not None:
        return None
    files = [
        path for suffix in ("txt", "tsv") for path in here.glob(f"*.{suffix}*") if path.name[0] not in "._"
    ]
    if len(files) > 1:
        names = ", ".join(sorted(path.name for path in files))
        raise UserError(f"{here} has several tab-separated files ({names}); give one with --data FILE")
    return files[0] if files else None


def _split_files(source: str, here: Path, split: str, stem: str, languages: Languages) -> SplitFiles:
    sides = [existing(here / f"{stem}.{language}") for language in languages]
    for side, language in zip(sides, languages, strict=True):
        if side is None:
            raise UserError(
                f"the corpus {source} is not complete: there is no {stem}.{language} (or .gz) in {here}. "
                f"Where to get it: {_WHERE[source]}"
            )
    references = None if split == "train" else existing(here / f"{stem}.all-references.tsv")
    return SplitFiles(cast(Path, sides[0]), cast(Path, sides[1]), references)
