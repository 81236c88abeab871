"""Tables as Markdown: what a report prints and what docs/results.md holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MISSING = "–"


@dataclass(frozen=True)
class Table:
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    words: tuple[int, ...] = (0,)  # columns that hold words, aligned left; numbers are aligned right


def markdown(table: Table) -> str:
    """The table with its title above and its note below; columns are padded, so that it reads as text."""
    rows = [[_cell(text) for text in row] for row in (table.header, *table.rows)]
    widths = [max(3, *(len(row[column]) for row in rows)) for column in range(len(table.header))]
    lines = [_line(row, widths, table.words) for row in rows]
    rule = [
        "-" * width if column in table.words else "-" * (width - 1) + ":"
        for column, width in enumerate(widths)
    ]
    parts = [f"**{table.title}**", "\n".join([lines[0], f"| {' | '.join(rule)} |", *lines[1:]])]
    return "\n\n".join([*parts, *([table.note] if table.note else [])])


def number(value: float | None, digits: int = 2) -> str:
    """A number with so many digits, or a dash where there is none."""
    return MISSING if value is None else f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 2) -> str:
    return MISSING if value is None else f"{value:+.{digits}f}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return MISSING
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _line(cells: Sequence[str], widths: Sequence[int], words: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if column in words else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"
