"""Batches of ever other shapes leave trimmer between what torch holds; glibc keeps them until it is asked."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

EVERY = 20.0  # seconds; once costs some 0.2 of them: what was given back must be fetched again


def _trim() -> Callable[[int], int] | None:
    """glibc's malloc_trim; None where there is none."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return found


class MemoryTrimmer:
    """Memory that is free, but not yet the system's."""

    def __init__(self) -> None:
        self._trim, self._last = _trim(), time.monotonic()

    def trim(self) -> None:
        """Now and then. Without it a server grows to several times its size, with it it stays as it is."""
        now = time.monotonic()
        if self._trim is not None and now - self._last > EVERY:
            self._last = now
            self._trim(0)
