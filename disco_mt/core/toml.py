"""TOML tables: read, merge and check them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from disco_mt.core.errors import UserError

Table = dict[str, Any]


def read_toml(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not valid TOML: {error}") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None


def merged(under: Table, over: Table) -> Table:
    """Both tables, recursively; values of `over` take precedence."""
    result = dict(under)
    for key, value in over.items():
        nested = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if nested else value
    return result


def subtable(content: Table, name: str, where: str = "", needed: bool = False) -> Table:
    """A table inside another; an empty one if it is missing and not needed."""
    if needed and name not in content:
        raise UserError(f"the table [{where}{name}] is missing")
    table = content.get(name, {})
    if not isinstance(table, dict):
        raise UserError(f"{where}{name} must be a table, got {table!r}")
    return table


def refuse_unknown(content: Table, known: tuple[str, ...], where: str) -> None:
    """Raise an error for keys that are not known."""
    for key in content:
        if key not in known:
            raise UserError(f"{where}unknown key '{key}'; known keys: {', '.join(sorted(known))}")
