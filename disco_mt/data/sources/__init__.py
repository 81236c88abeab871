"""Known corpora: their files, how to download them, and how to turn them into input of `disco prepare`.

multi30k           train, val, test_2016_flickr .en .de .fr (image captions), plain or .gz
tatoeba            train, dev, test .en .de, plain or .gz, with {dev,test}.all-references.tsv (the English
                   sentence, then every translation); or the tab-separated file that people download
phrasebook         generated; needs no files
libreoffice-help   Debian packages (MPL-2.0), downloaded with apt-get; English with German, French, Chinese
mtdata             any corpora that mtdata can download, many as one; or a folder of such files
"""

from __future__ import annotations

from pathlib import Path

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory
from disco_mt.data.phrasebook import phrasebook
from disco_mt.data.sources.files import (
    Languages,
    Parts,
    SourceFiles,
    SourceName,
    SplitFiles,
    data_folder,
    only,
    sample,
    write_lines,
    write_pairs,
)
from disco_mt.data.sources.folders import find_in_folder, folder_names
from disco_mt.data.sources.libreoffice_help import find_packages, obtain_packages, write_splits
from disco_mt.data.sources.many import find_parts, obtain_parts, write_train
from disco_mt.data.sources.tatoeba import references_alone, split_by_source, write_download

__all__ = [
    "Languages",
    "Parts",
    "SourceFiles",
    "SourceName",
    "SplitFiles",
    "can_be_obtained",
    "data_folder",
    "find_files",
    "find_other_pair",
    "obtain",
    "split_by_source",
    "text_files",
]


NO_PARTS = Parts()


def find_files(
    source: SourceName, folder: Path | None, languages: Languages, parts: Parts = NO_PARTS
) -> SourceFiles:
    """The files of a corpus in `folder`, or in a folder of its name there; errors name missing ones."""
    match source:
        case "phrasebook":
            only(
                languages, languages == ("en", "de"), "phrasebook is English-German: languages must be en, de"
            )
            return SourceFiles(source, languages)
        case "libreoffice-help":
            return find_packages(folder, languages)
        case "mtdata":
            return find_parts(folder, languages, parts)
        case "tatoeba":
            only(
                languages, languages[0] == "en", "tatoeba is split by English sentence: the source must be en"
            )
    return find_in_folder(source, folder, languages)


def find_other_pair(source: SourceName, folder: Path | None, languages: Languages) -> SourceFiles:
    """The files of another language pair of a corpus, which must be in a folder of its own name."""
    name = folder_names(source, languages)[0]
    if folder is None or not (folder / name).exists():
        raise UserError(
            f"the corpus {name} is also needed: put it into a folder {name} in the folder of corpora, "
            + ("which is given with --data" if folder is None else f"{folder}")
        )
    return find_files(source, folder / name, languages)


def can_be_obtained(source: SourceName) -> bool:
    return source in ("libreoffice-help", "mtdata")


def obtain(source: SourceName, folder: Path | None, languages: Languages, parts: Parts = NO_PARTS) -> bool:
    """Download what is missing of a corpus that can be downloaded; returns whether that was needed."""
    match source:
        case "libreoffice-help":
            return obtain_packages(folder, languages)
        case "mtdata":
            return obtain_parts(folder, languages, parts)
    return False


def text_files(files: SourceFiles, out: Path, limit: int = 0) -> dict[str, SplitFiles]:
    """The three splits as `disco prepare` reads them; others are written into `out`.

    limit: use a sample of so many training pairs (0: all); larger samples have the smaller ones in them.
    """
    if not out.exists():
        try:
            with atomic_directory(out) as directory:
                _convert(files, directory)
                if limit:
                    _write_sample(files, directory, limit)
        except OSError as error:
            raise UserError(f"cannot write {out}: {error.strerror or error}") from error
    return {split: _ready(files, split, out) for split in ("train", "valid", "test")}


def _convert(files: SourceFiles, directory: Path) -> None:
    """Write the files that must be generated or converted."""
    match files.source:
        case "phrasebook":
            phrasebook().write(directory)
        case "libreoffice-help":
            write_splits(files, directory)
        case "mtdata":
            write_train(files, directory)
        case "tatoeba" if files.raw:
            write_download(files.raw["download"], files.languages, directory)
    for split, split_files in files.splits.items():
        if split_files.references is not None:
            lines = references_alone(split_files.references, split_files.source)
            write_lines(directory / f"{split}.references.tsv", lines)


def _write_sample(files: SourceFiles, directory: Path, limit: int) -> None:
    """Replace the training pairs by a sample, which may be read from the files that it replaces."""
    small = directory / "sample"
    small.mkdir()
    write_pairs(small, "train", files.languages, sample(_ready(files, "train", directory), limit))
    for path in list(small.iterdir()):
        path.replace(directory / path.name)
    small.rmdir()


def _ready(files: SourceFiles, split: str, out: Path) -> SplitFiles:
    """The files of a split: those in `out`, else the corpus' own."""
    own = files.splits.get(split)
    source, target = (out / f"{split}.{language}" for language in files.languages)
    references = out / f"{split}.references.tsv"
    return SplitFiles(
        source if own is None or source.exists() else own.source,
        target if own is None or target.exists() else own.target,
        references if references.exists() else None,
    )
