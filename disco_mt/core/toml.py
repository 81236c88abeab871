"""Tables of TOML: reading a file, laying one table over another, naming what does not belong."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from disco_mt.core.errors import UserError

Table = dict[str, Any]


def read_toml(path: Path) -> Table:
    """What is in a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None


def merged(under: Table, over: Table) -> Table:
    """Both tables, the values of `over` first, table by table."""
    both = dict(under)
    for key, value in over.items():
        nested = isinstance(value, dict) and isinstance(both.get(key), dict)
        both[key] = merged(both[key], value) if nested else value
    return both


def subtable(content: Table, name: str, where: str = "", needed: bool = False) -> Table:
    """A table inside another; an empty one where there is none and none is needed."""
    if needed and name not in content:
        raise UserError(f"the table [{where}{name}] is missing")
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise UserError(f"{where}{name} must be a table, got {found!r}")
    return found


def refuse_unknown(content: Table, known: tuple[str, ...], where: str) -> None:
    """Every key must be one that is known."""
    for key in content:
        if key not in known:
            raise UserError(f"{where}unknown key '{key}'; known keys: {', '.join(sorted(known))}")
