"""What an experiment or a benchmark hands back: tables, figures, verdicts; as Markdown and as files."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from disco_mt.core.files import write_text
from disco_mt.reporting.plots import Figure, draw
from disco_mt.reporting.tables import Table, markdown
from disco_mt.reporting.verdicts import Verdict


@dataclass(frozen=True)
class Picture:
    name: str
    title: str
    svg: str


@dataclass(frozen=True)
class Report:
    tables: tuple[Table, ...]
    verdicts: tuple[Verdict, ...] = ()
    figures: tuple[Figure | Picture, ...] = ()
    notes: tuple[str, ...] = ()
    data: dict[str, Any] | None = None  # measurements that cannot be repeated exactly, such as times
    title: str = ""
    source: str = ""  # table, figure or section of the paper
    command: str = ""  # what was typed, and can be typed again
    inconsistencies: tuple[str, ...] = ()  # of the paper
    findings: tuple[str, ...] = ()  # the result in words, above all tables


def to_markdown(report: Report, pictures: bool = True) -> str:
    paper = [f"In the paper: {report.source}."] if report.source else []
    parts = [f"# {report.title}", *paper, f"```sh\n{report.command}\n```"]
    if report.findings:
        parts.append("\n".join(f"- {finding}" for finding in report.findings))
    parts += [markdown(table) for table in report.tables]
    parts += [f"![{figure.title}]({figure.name}.svg)" for figure in report.figures if pictures]
    if report.verdicts:
        parts.append(markdown(_verdicts(report.verdicts)))
    if report.notes:
        parts.append("\n".join(f"- {note}" for note in report.notes))
    if report.inconsistencies:
        lines = [f"- {text}" for text in report.inconsistencies]
        parts.append("\n".join(["The paper's own numbers, as they are:", "", *lines]))
    return "\n\n".join(parts) + "\n"


def first_table(text: str) -> str:
    table = re.search(r"^\*\*.*\*\*\n\n(?:\|.*\n?)+", text, flags=re.MULTILINE)
    return table.group().rstrip() if table else ""


def write_report(report: Report, folder: Path) -> Path:
    """report.md with its pictures (.svg, .png) and, if there are any, measurements (.json)."""
    for figure in report.figures:
        if isinstance(figure, Picture):
            write_text(folder / f"{figure.name}.svg", figure.svg)
        else:
            draw(figure, folder)
    if report.data is not None:
        write_text(folder / "measurements.json", json.dumps(report.data, indent=1) + "\n")
    write_text(folder / "report.md", to_markdown(report))
    return folder / "report.md"


def _verdicts(verdicts: tuple[Verdict, ...]) -> Table:
    rows = tuple((each.claim, each.answer, each.evidence) for each in verdicts)
    return Table("Does it hold here?", ("claim", "here", "evidence"), rows, words=(0, 1, 2))
