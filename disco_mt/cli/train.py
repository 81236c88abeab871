"""disco train, start, average: a recipe and a dataset -> a run -> a model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from disco_mt.cli.common import Device, Json, Threads, call, use_threads
from disco_mt.core.errors import UserError
from disco_mt.core.files import refuse_existing
from disco_mt.training import averaging
from disco_mt.training.loop import TrainingResult
from disco_mt.training.processes import rank
from disco_mt.training.recipe import Recipe, load_recipe, shipped_recipes
from disco_mt.training.train import train_recipe, write_start

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


def train_main(arguments: list[str]) -> int:
    """Train, and say where the models are."""
    unset = TrainCommand(recipe=tyro.MISSING, data=tyro.MISSING, out=tyro.MISSING)
    command = call(TrainCommand, "train", arguments, recipe_first(arguments, unset))
    recipe = command.settings
    if command.start:
        recipe = replace(recipe, start=replace(recipe.start, model=command.start))
    use_threads(command.threads)
    result = train_recipe(
        recipe,
        command.data,
        command.out,
        resume=command.resume,
        device=command.device,
        quiet=command.quiet,
    )
    if rank():  # the first of several processes speaks for all
        pass
    elif command.json:
        print(json.dumps({"run": str(command.out), **asdict(result)}))
    elif not command.quiet:
        print(_sentence(command, result))
    return 128 + result.signal if result.signal else 0


def recipe_first(arguments: list[str], unset: Command) -> Command:
    """The command with the values of the recipe that its first argument names: --help shows them."""
    if arguments and not arguments[0].startswith("-"):
        return replace(unset, recipe=arguments[0], settings=load_recipe(arguments[0]))
    if {"-h", "--help"} & set(arguments):
        return unset
    raise UserError(f"name a recipe first: a file, or one of {', '.join(shipped_recipes())}")


def _sentence(command: TrainCommand, result: TrainingResult) -> str:
    if result.signal:
        return f"stopped after step {result.step:,}; go on with the same command and --resume"
    first = result.best[0]
    return (
        f"{command.out}: ended after step {result.step:,} ({result.reason}); best dev BLEU "
        f"{first.score.bleu:.2f} at step {first.step:,}. Next: disco average {command.out} --out MODEL"
    )


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


def start_main(arguments: list[str]) -> int:
    """Write the model, and say where it is."""
    unset = StartCommand(recipe=tyro.MISSING, data=tyro.MISSING, out=tyro.MISSING)
    command = call(StartCommand, "start", arguments, recipe_first(arguments, unset))
    use_threads(command.threads)
    write_start(command.settings, command.data, command.out)
    print(f"{command.out}: what a training would start from")
    return 0


def average(
    run_: Annotated[Path, tyro.conf.arg(name="run", metavar="RUN"), tyro.conf.Positional],
    out: Path,
    number: int = 0,
    data: Path | None = None,
    json_: Json = False,
) -> int:
    """Average the weights of the best checkpoints of a run, by dev BLEU, into a model with a model card.

    By default the number of checkpoints (1, 2, 3 or 5) is the one whose mean has the best dev BLEU.

    disco average runs/teacher --out teacher
    disco average runs/teacher --out teacher --number 5

    Args:
        run_: Run directory of `disco train`.
        out: Model directory to write; it must not exist yet.
        number: How many checkpoints to average (the paper: 5); 0: chosen on the dev set.
        data: The dataset of the training, if it has moved since then.
    """
    refuse_existing(out)
    scores = _scored(run_, data, quiet=json_) if not number else []
    chosen = averaging.average(run_, out, number or averaging.best_number(scores))
    if json_:
        averaged = [{"path": str(each.path), "step": each.step, "bleu": each.bleu} for each in chosen]
        means = [{"number": each, "bleu": bleu} for each, bleu in scores]
        print(json.dumps({"out": str(out), "averaged": averaged, "means": means}))
    else:
        why = ", the number with the best dev BLEU" if scores else ""
        what = "the best checkpoint" if len(chosen) == 1 else f"the mean of {len(chosen)} checkpoints"
        print(f"{out}: {what} of {run_}{why}")
        for each in chosen:
            print(f"  step {each.step:>9,}   dev BLEU {each.bleu:5.2f}")
    return 0


def _scored(run: Path, data: Path | None, quiet: bool) -> list[tuple[int, float]]:
    scores = []
    for number, bleu in averaging.score_means(run, data):
        scores.append((number, bleu))
        if not quiet:
            print(f"  mean of {number}: dev BLEU {bleu:5.2f}", flush=True)
    return scores
