"""disco train: a recipe and a dataset -> a trained model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from disco_mt.cli.common import Device, Threads, call, use_threads
from disco_mt.core.errors import UserError
from disco_mt.training.loop import TrainingResult
from disco_mt.training.processes import rank
from disco_mt.training.recipe import Recipe, load_recipe, shipped_recipes
from disco_mt.training.train import train_recipe

Command = TypeVar("Command", bound=Any)  # a dataclass with the fields `recipe` and `settings`


@dataclass(frozen=True)
class TrainCommand:
    """Train a model. Every key of the recipe is an option too, and an option wins.

    disco train phrasebook.disco --data data --out runs/disco --training.max-steps 3000
    torchrun --nproc-per-node=2 -m disco_mt train phrasebook.disco --data data --out runs/disco
    """

    recipe: tyro.conf.Positional[str]
    """A recipe file (.toml), or the name of one that ships (see `disco info`)."""
    data: Path
    """Dataset directory made by `disco prepare`."""
    out: Path
    """Run directory: checkpoints, the best models, log.jsonl."""
    start: str = ""
    """A model to go on with, on other data or in another way: a model directory, a shipped model, or the id
    of one on the hub. Sizes and tokenizers must be the same (disco prepare --tokenizers MODEL)."""
    resume: bool = False
    """Go on with the run in --out from its last checkpoint; on a CPU bit for bit as if never stopped."""
    device: Device = "cpu"
    threads: Threads = 0
    quiet: bool = False
    """No progress bar, no lines; errors only."""
    json: bool = False
    """Print the result as JSON."""
    settings: Annotated[Recipe, tyro.conf.arg(name="")] = Recipe()  # noqa: RUF009 (frozen)


def run(command: TrainCommand) -> int:
    """Train, and say where the models are."""
    use_threads(command.threads)
    result = train_recipe(
        _with_start(command),
        command.data,
        command.out,
        resume=command.resume,
        device=command.device,
        quiet=command.quiet,
    )
    if rank():  # the first of several processes speaks for all
        pass
    elif command.json:
        print(json.dumps(_summary(command, result)))
    elif not command.quiet:
        print(_sentence(command, result))
    return 128 + result.signal if result.signal else 0


def main(arguments: list[str]) -> int:
    """The verb: the recipe comes first and is read first, so that --help shows its values as the defaults."""
    unset = TrainCommand(recipe=tyro.MISSING, data=tyro.MISSING, out=tyro.MISSING)
    return run(call(TrainCommand, "train", arguments, recipe_first(arguments, unset)))


def recipe_first(arguments: list[str], unset: Command) -> Command:
    """The command with the values of the recipe that its first argument names."""
    if arguments and not arguments[0].startswith("-"):
        return replace(unset, recipe=arguments[0], settings=load_recipe(arguments[0]))
    if {"-h", "--help"} & set(arguments):
        return unset
    raise UserError(f"name a recipe first: a file, or one of {', '.join(shipped_recipes())}")


def _with_start(command: TrainCommand) -> Recipe:
    """The recipe, with the model to start from if one is named on the command line."""
    recipe = command.settings
    return replace(recipe, start=replace(recipe.start, model=command.start)) if command.start else recipe


def _summary(command: TrainCommand, result: TrainingResult) -> dict[str, Any]:
    return {"run": str(command.out), **asdict(result)}


def _sentence(command: TrainCommand, result: TrainingResult) -> str:
    if result.signal:
        return f"stopped after step {result.step:,}; go on with the same command and --resume"
    first = result.best[0]
    return (
        f"{command.out}: ended after step {result.step:,} ({result.reason}); best dev BLEU "
        f"{first.score.bleu:.2f} at step {first.step:,}. Next: disco average {command.out} --out MODEL"
    )
