"""Lists among the settings: TOML and JSON have lists, frozen dataclasses have tuples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from disco_mt.core.errors import UserError
from disco_mt.core.settings import from_dict


@dataclass(frozen=True)
class Inner:
    numbers: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()


@dataclass(frozen=True)
class Outer:
    inner: Inner = Inner()
    name: str = ""


def test_lists_become_tuples() -> None:
    found = from_dict(Outer, {"inner": {"numbers": [1, 3, 6], "names": ["a"], "shares": [1, 0.5]}}, "x.toml")
    assert found.inner == Inner((1, 3, 6), ("a",), (1, 0.5))
    assert hash(found) == hash(Outer(Inner((1, 3, 6), ("a",), (1, 0.5))))
    assert from_dict(Inner, {"numbers": [], "names": ("a", "b")}, "x") == Inner((), ("a", "b"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"numbers": 3}, "x.toml: inner: numbers must be a list, got 3"),
        ({"numbers": "136"}, "numbers must be a list, got '136'"),
        ({"names": "encoder"}, "names must be a list, got 'encoder'"),
        ({"numbers": [1, "3"]}, "numbers must be a whole number, got '3'"),
        ({"numbers": [1, 2.5]}, r"numbers must be a whole number, got 2\.5"),
        ({"numbers": [True]}, "numbers must be a whole number, got True"),
        ({"names": ["encoder", 1]}, "names must be a string, got 1"),
        ({"shares": ["half"]}, "shares must be a number, got 'half'"),
        ({"numbers": [[1]]}, r"numbers must be a whole number, got \[1\]"),
        ({"numbers": {"1": 1}}, "numbers must be a list, got {'1': 1}"),
    ],
)
def test_wrong_types_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        from_dict(Outer, {"inner": values}, "x.toml")
