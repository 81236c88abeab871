"""Settings are frozen dataclasses; here is how TOML and JSON become one, with errors that teach."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from disco_mt.errors import UserError

T = TypeVar("T")

_IN_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "true or false",
    dict: "a table",
}


def from_dict(cls: type[T], values: dict[str, Any], where: str) -> T:
    """A dataclass from a plain mapping (TOML, JSON); unknown and mistyped keys are named."""
    hints = get_type_hints(cls)
    known = {f.name for f in fields(cls)}  # type: ignore[arg-type]
    for name, value in values.items():
        if name not in known:
            raise UserError(f"{where}: unknown key '{name}'; known keys: {', '.join(sorted(known))}")
        _check_type(hints[name], value, f"{where}: {name}")
    nested = {
        name: from_dict(hints[name], value, f"{where}: {name}") if is_dataclass(hints[name]) else value
        for name, value in values.items()
    }
    return cls(**nested)


def _check_type(hint: Any, value: object, where: str) -> None:
    choices = get_args(hint)
    if is_dataclass(hint):
        expected: tuple[type, ...] = (dict,)
    elif hint in (float, float | None):
        expected = (int, float)
    elif isinstance(hint, type):
        expected = (hint,)
    elif choices and all(isinstance(choice, str) for choice in choices):
        return one_of(where, value, choices)
    else:
        return None
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        raise UserError(f"{where} must be {_IN_WORDS[expected[-1]]}, got {value!r}")


def one_of(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not among the choices, and list them."""
    if value not in choices:
        raise UserError(f"{name} must be one of {', '.join(choices)}; got {value!r}")


def at_least(name: str, value: float, least: float) -> None:
    """Refuse a number that is too small."""
    if not value >= least:  # so that nan is refused, too
        raise UserError(f"{name} must be at least {least}, got {value}")
