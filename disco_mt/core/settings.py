"""Frozen dataclasses from TOML and JSON, with helpful errors."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from disco_mt.core.errors import UserError

T = TypeVar("T")

_IN_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "true or false",
    dict: "a table",
}


def from_dict(cls: type[T], values: dict[str, Any], where: str) -> T:
    """A dataclass from a mapping (TOML, JSON); errors name unknown and mistyped keys."""
    hints = get_type_hints(cls)
    known = {f.name for f in fields(cls)}  # type: ignore[arg-type]
    for name, value in values.items():
        if name not in known:
            raise UserError(f"{where}: unknown key '{name}'; known keys: {', '.join(sorted(known))}")
        _check_type(hints[name], value, f"{where}: {name}")
    return cls(**{name: _value(hints[name], value, f"{where}: {name}") for name, value in values.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    """Tables become dataclasses, lists become tuples."""
    if is_dataclass(hint):
        return from_dict(hint, value, where)  # type: ignore[arg-type]
    return tuple(value) if get_origin(hint) is tuple else value


def _check_type(hint: Any, value: object, where: str) -> None:
    choices = get_args(hint)
    if is_dataclass(hint):
        expected: tuple[type, ...] = (dict,)
    elif get_origin(hint) is tuple:
        return _check_list(choices[0], value, where)
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


def _check_list(hint: Any, values: object, where: str) -> None:
    if not isinstance(values, (list, tuple)):
        raise UserError(f"{where} must be a list, got {values!r}")
    for value in values:
        _check_type(hint, value, where)


def one_of(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise an error that lists the choices if the value is not one of them."""
    if value not in choices:
        named = ", ".join(choice for choice in choices if choice)  # the empty string is the default
        raise UserError(f"{name} must be one of {named}; got {value!r}")


def at_least(name: str, value: float, least: float) -> None:
    if not value >= least:  # also true for nan
        raise UserError(f"{name} must be at least {least}, got {value}")
