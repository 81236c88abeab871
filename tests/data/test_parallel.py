"""Parallel map: in order, with bounded look-ahead; a process that dies is an error."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from disco_mt.core.errors import UserError
from disco_mt.core.machine import cores
from disco_mt.data.parallel import WAITING, ordered_map


def square(number: int) -> int:
    return number * number


def refuse(number: int) -> int:
    raise UserError(f"{number} is refused")


def die(number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_order_and_items_are_read_as_needed(jobs: int) -> None:
    read = []

    def items() -> Iterator[int]:
        for number in range(50):
            read.append(number)
            yield number

    found = ordered_map(square, items(), jobs)
    assert [next(found) for _ in range(5)] == [0, 1, 4, 9, 16]
    assert len(read) <= 5 + WAITING * jobs
    assert list(found) == [number * number for number in range(5, 50)]


def test_mistakes_and_deaths_end_it() -> None:
    with pytest.raises(UserError, match="0 is refused"):
        list(ordered_map(refuse, range(9), 2))
    with pytest.raises(UserError, match=r"has ended .no memory left.*; use fewer --jobs"):
        list(ordered_map(die, range(9), 2))


def test_there_is_a_core() -> None:
    assert cores() >= 1
