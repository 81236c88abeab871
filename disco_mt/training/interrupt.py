"""Ctrl-C and SIGTERM while training: finish the update, save, go. A second Ctrl-C stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType


class Interruption:
    """The signal that was received, if any."""

    signal: int | None = None


@contextmanager
def interruption(warn: Callable[[str], None]) -> Iterator[Interruption]:
    """Catch the two signals inside the block; the handlers of before come back after it.

    Only the main thread may set handlers; elsewhere the signals keep their meaning.
    """
    came = Interruption()

    def note(number: int, frame: FrameType | None) -> None:
        if came.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        came.signal = came.signal or number
        with suppress(RuntimeError):  # the signal came in the middle of another print
            warn("finishing this update and saving; Ctrl-C once more stops at once")

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
