"""disco start: the model that a training would start from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from disco_mt.cli.common import Threads, call, use_threads
from disco_mt.cli.train import recipe_first
from disco_mt.training.recipe import Recipe
from disco_mt.training.train import write_start


@dataclass(frozen=True)
class StartCommand:
    """Write the model that a training would start from: random weights, or a converted teacher's.

    disco start opus.disco --data data --start.model teacher --out start
    """

    recipe: tyro.conf.Positional[str]
    """A recipe file (.toml), or the name of one that ships (see `disco info`)."""
    data: Path
    """Dataset directory made by `disco prepare`."""
    out: Path
    """Model directory to write; it must not exist yet."""
    threads: Threads = 0
    settings: Annotated[Recipe, tyro.conf.arg(name="")] = Recipe()  # noqa: RUF009 (frozen)


def main(arguments: list[str]) -> int:
    """The verb."""
    unset = StartCommand(recipe=tyro.MISSING, data=tyro.MISSING, out=tyro.MISSING)
    command = call(StartCommand, "start", arguments, recipe_first(arguments, unset))
    use_threads(command.threads)
    write_start(command.settings, command.data, command.out)
    print(f"{command.out}: what a training would start from")
    return 0
