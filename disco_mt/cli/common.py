"""What several verbs share: reading options with tyro, threads, reading and writing lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_file
from disco_mt.text.lines import read_lines, split_lines

Result = TypeVar("Result")

# Options that several verbs have, with their help.
Json = Annotated[bool, tyro.conf.arg(name="json", help="Print as JSON.")]
Quiet = Annotated[bool, tyro.conf.arg(help="No progress bar.")]
Threads = Annotated[int, tyro.conf.arg(help="Threads to use; 0 leaves the choice to torch.")]
Device = Annotated[str, tyro.conf.arg(help="cpu, cuda or mps.")]
ModelName = Annotated[
    str, tyro.conf.arg(help="A shipped model, a model directory, or the id of a model on the hub.")
]
RerankWith = Annotated[
    str,
    tyro.conf.arg(
        help="A model that scores the length candidates left to right and picks one: a model as in --model, "
        '"self" for the same weights, or "none". Empty: the model\'s own default.'
    ),
]
BatchTokens = Annotated[
    int,
    tyro.conf.arg(help="Padded source tokens that are decoded together; 1 is one sentence at a time."),
]
Runs = Annotated[
    Path | None,
    tyro.conf.arg(help="Folder of results; by default DISCO_RUNS, or the user's cache folder."),
]

RENAMED = {
    "--rescore-with": "--rerank-with",
    "--settle": "--effort high",
    "--read": "--effort high",
    "--known": "--reuse",
    "--recipe": "--suite",
    "--drop-behind": "",
    "--drop-after": "",
}
"""Options of 0.1 and what they are now; empty: removed without a replacement."""


def call(
    function: Callable[..., Result], verb: str, arguments: list[str], default: Result | None = None
) -> Result:
    """Call a verb's function, or make its dataclass, from the command line; its docstring is the help."""
    _refuse_renamed(arguments)
    config = (tyro.conf.OmitArgPrefixes,) if default is None else ()
    kept: Any = tyro.MISSING_NONPROP if default is None else default
    return tyro.cli(function, prog=f"disco {verb}", args=arguments, default=kept, config=config)


def _refuse_renamed(arguments: list[str]) -> None:
    """Name the new option where an old one is used."""
    for argument in arguments:
        name = argument.partition("=")[0].replace("_", "-").replace("--pruning.", "--")
        if name in RENAMED:
            new = RENAMED[name]
            told = f"is now {new}" if new else "was removed: candidates are no longer dropped"
            raise UserError(f"{name} {told}; see docs/migration-0.2.md")


def use_threads(threads: int) -> None:
    """Limit torch to so many threads; 0 leaves its own choice."""
    if threads < 0:
        raise UserError(f"--threads must be at least 0, got {threads}")
    if threads:
        import torch

        torch.set_num_threads(threads)


def input_lines(path: Path | None) -> list[str]:
    """Lines of a file, or of standard input (None or -)."""
    if path is not None and str(path) != "-":
        return list(read_lines(path))
    try:
        return split_lines(sys.stdin.buffer.read().decode("utf-8"))
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"standard input, line {line}: not valid UTF-8") from None


def write_lines(lines: Iterable[str], path: Path | None) -> None:
    """Lines to a file (atomically) or to standard output."""
    if path is None:
        for line in lines:
            sys.stdout.buffer.write(line.encode("utf-8") + b"\n")
        sys.stdout.buffer.flush()
        return
    with writing(path), atomic_file(path) as temporary, temporary.open("wb") as stream:
        stream.writelines(line.encode("utf-8") + b"\n" for line in lines)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say which output could not be written: a full disk, a place that is closed to the user."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
