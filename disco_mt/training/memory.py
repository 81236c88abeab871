"""Memory that is freed stays with the process, because the next operation wants as much.

The tensors of an update come and go a megabyte at a time. glibc gives such blocks back to the kernel and gets
them anew, page by page and filled with zeros: up to a tenth of the time of a small model on a CPU.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of mallopt's options in malloc.h


def keep_freed_memory() -> None:
    """Set the options of glibc; with another C library nothing happens."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_MMAP_THRESHOLD, 1 << 25)  # the most that it accepts
        library.mallopt(_TRIM_THRESHOLD, 1 << 30)
