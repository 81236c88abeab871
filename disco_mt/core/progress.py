"""Progress of long stages: a bar with ETA on a terminal, plain lines elsewhere, nothing if quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]

PLAIN_INTERVAL = 30.0  # seconds between two lines


@contextmanager
def stage(label: str, total: int, quiet: bool) -> Iterator[Advance]:
    """A stage of `total` steps; yields a function that is called with the number of steps just done."""
    if quiet:
        yield lambda steps: None
    elif sys.stderr.isatty():
        with _bar(label, total) as advance:
            yield advance
    else:
        started = time.monotonic()
        yield _plain_lines(label, total, started)
        print(f"{label}: {total:,} done in {time.monotonic() - started:.0f} s", file=sys.stderr)


@contextmanager
def _bar(label: str, total: int) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(label, total=total)
        yield lambda steps: progress.advance(task, steps)


def _plain_lines(label: str, total: int, started: float) -> Advance:
    done, reported = 0, started

    def advance(steps: int) -> None:
        nonlocal done, reported
        done += steps
        now = time.monotonic()
        if now - reported >= PLAIN_INTERVAL and 0 < done < total:
            reported = now
            remaining = (now - started) / done * (total - done)
            print(f"{label}: {done:,} of {total:,}, {remaining:.0f} s to go", file=sys.stderr)

    return advance
