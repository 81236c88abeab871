"""Translations as they are committed, so that every score can be recomputed without the models.

docs/results/SUITE/SPLIT.SLUG.tsv has one line per sentence: steps, tab, text. The .json beside it says which
system and decoding options made it, what it scored, and by which signatures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from disco_mt.core.errors import UserError
from disco_mt.core.files import write_text
from disco_mt.evaluation.quality import Quality, References, measure
from disco_mt.experiments.decode import Hypotheses, Lab
from disco_mt.reporting.tables import Table, number
from disco_mt.text.lines import read_lines


@dataclass(frozen=True)
class Recorded:
    """One committed file of translations, with what its .json says."""

    path: Path
    about: dict[str, Any]
    steps: tuple[int, ...]
    texts: tuple[str, ...]

    @property
    def split(self) -> str:
        """valid or test."""
        return str(self.about["split"])


@dataclass(frozen=True)
class Recomputed:
    """The scores of a committed file, found again."""

    recorded: Recorded
    quality: Quality
    steps: float

    @property
    def agrees(self) -> bool:
        """Are they what was written when the file was made?"""
        about = self.recorded.about
        pairs = ((self.quality.bleu, "bleu"), (self.quality.chrf, "chrf"), (self.steps, "steps"))
        return all(abs(value - about[name]) < 1e-6 for value, name in pairs)


def export(lab: Lab, experiment: str, folder: Path) -> list[Path]:
    """Write all translations that an experiment used; a file that several experiments use names them all."""
    return [_export(lab, experiment, found, folder) for found in lab.used.values()]


def read_results(folder: Path) -> list[Recorded]:
    """The committed files of a suite."""
    found = [_recorded(path) for path in sorted(folder.glob("*.tsv"))]
    if not found:
        raise UserError(
            f"{folder} has no results: expected files SPLIT.SYSTEM.STRATEGY.tsv, each with a .json"
        )
    return found


def named_results(folder: Path, names: Sequence[str]) -> list[Recorded]:
    """Some of them, all of one split, by the names of their files."""
    known = {each.path.stem: each for each in read_results(folder)}
    for name in names:
        if name not in known:
            raise UserError(f"{folder} has no {name}.tsv; there are: {', '.join(known)}")
    if len({known[name].split for name in names}) > 1:
        raise UserError(f"translations of one split can be compared, got {', '.join(names)}")
    return [known[name] for name in names]


def recompute(results: Sequence[Recorded], references: Mapping[str, References]) -> list[Recomputed]:
    """Score every file of the splits whose references are given."""
    return [
        Recomputed(
            each,
            measure(each.texts, references[each.split], each.about["target_language"]),
            sum(each.steps) / len(each.steps),
        )
        for each in results
        if each.split in references
    ]


def recomputed_table(found: Sequence[Recomputed], experiment: str) -> Table:
    """The files that one experiment used."""
    rows = tuple(
        (
            each.recorded.path.stem,
            number(each.steps),
            number(each.quality.bleu),
            number(each.quality.chrf),
            "yes" if each.agrees else f"no: {each.recorded.about['bleu']:.2f} was recorded",
        )
        for each in found
        if experiment in each.recorded.about["experiments"]
    )
    header = ("file", "steps", "BLEU", "chrF", "as recorded")
    return Table(experiment, header, rows, words=(0, 4))


def _export(lab: Lab, experiment: str, found: Hypotheses, folder: Path) -> Path:
    path = folder / f"{found.split}.{found.decoding.slug()}.tsv"
    quality, known = lab.quality(found), _about(path)["experiments"] if path.exists() else []
    about = {
        "suite": lab.suite.name,
        "split": found.split,
        "system": found.decoding.system,
        "decoding": found.decoding.settings(),
        "rerank_with": found.decoding.rerank_with,
        "target_language": lab.language,
        "sentences": len(found.texts),
        "steps": found.mean_steps,
        "bleu": quality.bleu,
        "bleu_signature": quality.bleu_signature,
        "chrf": quality.chrf,
        "chrf_signature": quality.chrf_signature,
        "experiments": sorted({*known, experiment}),
    }
    lines = [f"{steps}\t{text}\n" for steps, text in zip(found.steps, found.texts, strict=True)]
    write_text(path, "".join(lines))
    write_text(_beside(path), json.dumps(about, indent=1, ensure_ascii=False) + "\n")
    return path


def _recorded(path: Path) -> Recorded:
    about = _about(path)
    rows = [line.split("\t", 1) for line in read_lines(path)]
    for place, row in enumerate(rows, start=1):
        if len(row) != 2 or not row[0].isdigit():
            raise UserError(f"{path}, line {place}: expected steps, a tab, and text; found {row!r}")
    if len(rows) != about["sentences"]:
        raise UserError(f"{path} has {len(rows)} lines, but its .json says {about['sentences']}")
    return Recorded(path, about, tuple(int(row[0]) for row in rows), tuple(row[1] for row in rows))


def _about(path: Path) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads(_beside(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {_beside(path)}, which says what made {path.name}: {error}") from None
    return about


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name.removesuffix('.tsv')}.json")
