"""Tatoeba as downloaded from its site: one tab-separated file, which is split here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from disco_mt.core.errors import UserError
from disco_mt.data.sources.files import Languages, Pair, draw, write_lines, write_pairs
from disco_mt.text.lines import read_lines

HELD_OUT = 1000  # English sentences in valid and in test; a twentieth of small files

WithReferences = list[tuple[str, list[str]]]


def write_download(path: Path, languages: Languages, directory: Path) -> None:
    """Write the splits of a download as text files."""
    train, *held_out = split_by_source(_pairs(path))
    write_pairs(directory, "train", languages, train)
    for split, sentences in zip(("valid", "test"), held_out, strict=True):
        write_pairs(directory, split, languages, ((source, targets[0]) for source, targets in sentences))
        write_lines(directory / f"{split}.references.tsv", ("\t".join(targets) for _, targets in sentences))


def split_by_source(pairs: Iterable[Pair]) -> tuple[list[Pair], WithReferences, WithReferences]:
    """Train, valid, test: no source sentence is in two of them, no held-out translation is in train.

    Sentences are held out by their hashes, so those of a newer download are mostly the same.
    """
    translations: dict[str, list[str]] = {}
    for source, target in pairs:
        known = translations.setdefault(source, [])
        if target not in known:
            known.append(target)
    size = min(HELD_OUT, len(translations) // 20)
    if not size:
        raise UserError(f"{len(translations)} different sentences are too few to hold some out; expected 20")
    drawn = sorted(translations, key=draw)[: 2 * size]
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


def references_alone(references: Path, source: Path) -> Iterator[str]:
    """The translations of each line, without the source sentence, which must match the source file."""
    sentences = read_lines(source)
    for number, line in enumerate(read_lines(references), start=1):
        sentence, *translations = line.split("\t")
        if sentence != next(sentences, None) or not any(translations):
            raise UserError(
                f"{references}, line {number}: expected the sentence of this line in {source}, then its "
                f"translations, separated by tabs; got {line!r}"
            )
        yield "\t".join(translations)


def _pairs(path: Path) -> Iterator[Pair]:
    """Pairs of a download: source, target[, attribution]; in files of tatoeba.org each after its number."""
    for number, line in enumerate(read_lines(path), start=1):
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) >= 4 and columns[0].isdigit() and columns[2].isdigit():
            columns = [columns[1], columns[3]]
        if len(columns) < 2 or not all(columns[:2]):
            raise UserError(f"{path}, line {number}: expected source TAB target, got {line!r}")
        yield columns[0], columns[1]
