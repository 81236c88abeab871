"""The stages of a suite: what each needs, the hash of all that it depends on, and the command that runs it.

prepare -> train:TEACHER -> average:TEACHER -> distill -> train:STUDENT -> average:STUDENT -> evaluate:STUDENT
and, once all models are there, report:EXPERIMENT.

Where a value is to be chosen: train:SYSTEM@0.1, train:SYSTEM@0.2, ... -> choose:SYSTEM -> average:SYSTEM
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from disco_mt.data.sources import SplitFiles
from disco_mt.suites.choose import chosen_training
from disco_mt.suites.suite import SUITES, Distillation, Suite, System
from disco_mt.training.recipe import Recipe
from disco_mt.training.rundir import is_run

VERSION = 1  # part of every hash: to be raised when a stage makes something else from the same options
DONE, RECIPE, SCORES = "done.json", "recipe.toml", "scores.json"  # in the directory of a stage
# In the folder of all: the hashes of the files of the corpus, and those of its other pairs.
CORPUS, OTHER_PAIRS = "corpus.json", "other-pairs.json"
# Options on which nothing depends that is made: of training, and of distillation.
_NO_INPUT = {"save_every", "log_every", "runner"}


@dataclass(frozen=True)
class Stage:
    """One step of a suite; what it makes is in `directory`, and whole once `done`."""

    name: str
    needs: tuple[str, ...]  # stages
    directory: Path
    inputs: dict[str, Any]  # all that it depends on

    @property
    def done(self) -> bool:
        """Is there nothing left to do?"""
        return (self.directory / DONE).is_file()

    @property
    def verb(self) -> str:
        """What is done; but for choose, subset and report it is the `disco` command of that name."""
        return self.name.partition(":")[0]

    @property
    def system(self) -> str:
        """The system, data or experiment that it is for; empty if it is for all systems."""
        return self.name.partition(":")[2]

    @property
    def output(self) -> Path:
        """What the command makes: a dataset, a run, a model, or the hypotheses."""
        return self.directory / _OUTPUT[self.verb]


_OUTPUT = {
    "prepare": "data",
    "distill": "data",
    "train": "run",
    "choose": "chosen.json",
    "average": "model",
    "subset": "data",
    "evaluate": "hypotheses.txt",
    "report": "report/report.md",
}


def data_stage(data: str) -> str:
    """The name of the stage that makes such data."""
    if "/" in data:
        return f"subset:{data}"
    return {"raw": "prepare", "distilled": "distill"}.get(data, f"distill:{data}")


def plan(suite: Suite, folder: Path, corpus: dict[str, str], other_pairs: dict[str, str]) -> dict[str, Stage]:
    """All stages by name, in an order in which they can run. corpus, other_pairs: the hashes of the files."""
    stages: dict[str, Stage] = {}

    def add(name: str, inputs: dict[str, Any], *needs: str) -> None:
        inputs = inputs | {"needs": {need: stages[need].directory.name for need in needs}}
        directory = folder / name.replace(":", "-").replace("/", "-") / digest(inputs)
        stages[name] = Stage(name, needs, directory, inputs)

    def add_system(name: str, system: System) -> None:
        if system.data_kind == "part" and data_stage(system.data) not in stages:
            whole, _, part = system.data.partition("/")
            add(data_stage(system.data), {"part": int(part)}, data_stage(whole))
        needs = [data_stage(system.data), *([f"average:{system.start}"] if system.start else [])]
        for label, recipe in suite.trainings(name).items():
            add(f"train:{label}", {"recipe": _recipe_inputs(recipe)}, *needs)
        if system.choose.dropout:
            add(f"choose:{name}", {}, *(f"train:{label}" for label in suite.trainings(name)))
        best = f"choose:{name}" if system.choose.dropout else f"train:{name}"
        add(f"average:{name}", {"number": suite.average}, best)
        # The test set is that of the raw data in either case.
        add(f"evaluate:{name}", {"decoding": non_defaults(system.evaluate)}, "prepare", f"average:{name}")

    add(
        "prepare", {"data": non_defaults(suite.data), "files": corpus, "prepare": non_defaults(suite.prepare)}
    )
    for name, system in suite.systems.items():
        if system.data == "raw":
            add_system(name, system)
    if suite.distill is not None:
        needs, inputs = ("prepare", f"average:{suite.distill.teacher}"), _distillation(suite, suite.distill)
        add(data_stage("distilled"), {"distill": inputs}, *needs)
        for name, more in suite.distill.more.items():
            files = {
                key: hash_ for key, hash_ in other_pairs.items() if key.partition(".")[0] in more.also_from
            }
            add(data_stage(name), {"distill": inputs | non_defaults(more), "files": files}, *needs)
    for name, system in suite.systems.items():
        if system.data != "raw":
            add_system(name, system)
    for experiment in suite.reports:
        add(f"report:{experiment}", {}, "prepare", *(f"average:{name}" for name in suite.systems))
    return stages


def command(
    stage: Stage, stages: dict[str, Stage], suite: Suite, threads: int, device: str = "cpu"
) -> list[str]:
    """The arguments of `disco` that run a stage, from the start or where it stopped.

    prepare has prepare_command; choose and subset are no commands.
    """
    output = ["--out", str(stage.output)]
    limit = ["--threads", str(threads), *(["--device", device] if device != "cpu" else [])]
    match stage.verb:
        case "train":
            data, *start = (stages[need].output for need in stage.needs)
            begin = [word for model in start for word in ("--start", str(model))]
            begin += ["--resume"] if is_run(stage.output) else []
            recipe = str(stage.directory / RECIPE)
            return ["train", recipe, "--data", str(data), *output, *limit, *begin]
        case "average":
            run = run_of(stages[stage.needs[0]], stages)
            number = ["--number", str(suite.average)] if suite.average else []
            return ["average", str(run), *output, *number]
        case "distill":
            data, model = (stages[need].output for need in stage.needs)
            assert suite.distill is not None
            options = _distillation(suite, suite.distill)
            options |= {"runner": suite.distill.runner} if suite.distill.runner != "local" else {}
            del options["teacher"]
            if stage.system and (splice := suite.distill.more[stage.system].splice):
                options["splice"] = splice
            return ["distill", "--model", str(model), "--data", str(data), *output, *limit, *flags(options)]
        case "report":
            assert suite.path is not None
            known = suite.name if suite.path.parent == SUITES else str(suite.path)
            where = ["--suite", known, "--runs", str(stage.directory.parents[2])]
            return ["experiment", stage.system, *where, "--out", str(stage.output.parent), *limit]
        case _:
            data, model = (stages[need].output for need in stage.needs)
            files = ["--source", str(data / "test.source.txt"), *_references(data)]
            files += ["--hypotheses", str(stage.output)]
            return ["evaluate", "--model", str(model), *files, *limit, *flags(stage.inputs["decoding"])]


def run_of(stage: Stage, stages: dict[str, Stage]) -> Path:
    """The training run that a stage made, or chose."""
    return stages[chosen_training(stage.output)].output if stage.verb == "choose" else stage.output


def prepare_command(stage: Stage, suite: Suite, splits: dict[str, SplitFiles]) -> list[str]:
    """The arguments of `disco` that make the dataset."""
    options: dict[str, Any] = dict(
        zip(("source_language", "target_language"), suite.data.languages, strict=True)
    )
    for split, files in splits.items():
        prefix = "" if split == "train" else f"{split}_"
        options |= {f"{prefix}{key}": value for key, value in asdict(files).items() if value is not None}
    return ["prepare", *flags(options | non_defaults(suite.prepare)), "--out", str(stage.output)]


def flags(options: dict[str, Any]) -> list[str]:
    """Options as they are typed."""
    return [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]


def non_defaults(options: Any) -> dict[str, Any]:
    """What differs from the defaults: an option that is added one day changes no hash."""
    found: dict[str, Any] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        default = field.default if field.default_factory is MISSING else field.default_factory()
        if value != default:
            found[field.name] = non_defaults(value) if is_dataclass(value) else value
    return found


def digest(inputs: dict[str, Any]) -> str:
    """A short name for all that a stage depends on."""
    text = json.dumps({"version": VERSION, **inputs}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _inputs(options: Any) -> dict[str, Any]:
    return {key: value for key, value in non_defaults(options).items() if key not in _NO_INPUT}


def _distillation(suite: Suite, distill: Distillation) -> dict[str, Any]:
    """What the teacher's translations depend on; it distils with the length penalty of its test scores."""
    scored_with = suite.system(distill.teacher).evaluate.length_penalty
    own = {} if scored_with is None else {"length_penalty": scored_with}
    return own | _inputs(distill.plain)


def _recipe_inputs(recipe: Recipe) -> dict[str, Any]:
    return {**non_defaults(recipe), "training": _inputs(recipe.training)}


def _references(data: Path) -> list[str]:
    """All references, if they are known."""
    every = data / "test.references.tsv"
    return ["--references", str(every)] if every.exists() else ["--reference", str(data / "test.target.txt")]
