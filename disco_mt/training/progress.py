"""How training is going, on stderr: a bar on a terminal, plain lines elsewhere, only warnings if quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


@dataclass(frozen=True)
class Figures:
    """What a reader of the bar wants to know."""

    step: int
    loss: float | None = None  # per word
    tokens_per_second: float | None = None  # target words
    bleu: float | None = None  # the last dev score

    def __str__(self) -> str:
        parts = [
            "" if self.loss is None else f"loss {self.loss:.3f}",
            "" if self.tokens_per_second is None else f"{self.tokens_per_second:,.0f} tokens/s",
            "" if self.bleu is None else f"dev {self.bleu:.2f} BLEU",
        ]
        return "  ".join(part for part in parts if part)


class Quiet:
    """Says nothing; warnings still come, but only from the first of several processes."""

    def __init__(self, first: bool = True) -> None:
        self.first = first

    def say(self, text: str) -> None:
        """Something worth knowing."""

    def warn(self, text: str) -> None:
        """Something the user must know."""
        if self.first:
            print(f"warning: {text}", file=sys.stderr, flush=True)

    def show(self, figures: Figures) -> None:
        """After each update."""

    def line(self, figures: Figures) -> None:
        """After each line of the log."""


class Plain(Quiet):
    """A line where the log has one, for files and pipes."""

    def __init__(self, total: int, done: int) -> None:
        super().__init__()
        self.total, self.done, self.started = total, done, time.monotonic()

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def line(self, figures: Figures) -> None:
        done = figures.step - self.done
        left = (time.monotonic() - self.started) / max(1, done) * (self.total - figures.step)
        self.say(f"step {figures.step:,} of {self.total:,}  {figures}  {duration(left)} to go")


class Bar(Quiet):
    """rich draws from its own thread, so that an update costs next to nothing."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        super().__init__()
        self.bar, self.task = bar, task

    def say(self, text: str) -> None:
        self.bar.console.print(text, highlight=False, markup=False)

    def warn(self, text: str) -> None:
        self.bar.console.print(f"warning: {text}", style="yellow", highlight=False, markup=False)

    def show(self, figures: Figures) -> None:
        self.bar.update(self.task, completed=figures.step, figures=str(figures))


@contextmanager
def progress(total: int, done: int, quiet: bool, first: bool = True) -> Iterator[Quiet]:
    """`total` updates, of which `done` were made before. first: is this the process that speaks?"""
    if quiet or not first:
        yield Quiet(first)
    elif sys.stderr.isatty():
        with _bar() as bar:
            yield Bar(bar, bar.add_task("training", total=total, completed=done, figures=""))
    else:
        yield Plain(total, done)


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def duration(seconds: float) -> str:
    """The time to go, as a person says it."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
