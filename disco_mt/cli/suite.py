"""disco suite: whole experiments (suites), from the data to the scores, stage by stage; and disco demo."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from disco_mt.cli.common import Device, Json, Runs, call
from disco_mt.core.errors import UserError
from disco_mt.experiments import load
from disco_mt.reporting.plots import require_matplotlib
from disco_mt.reporting.reports import first_table
from disco_mt.reporting.tables import Table, markdown, number
from disco_mt.suites.package import package
from disco_mt.suites.suite import Suite, find_suite, load_suite, shipped_suites
from disco_mt.suites.workspace import Workspace

Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(help="A suite that ships, or a file.")]
Data = Annotated[Path | None, tyro.conf.arg(help="Folder of the corpus; by default DISCO_DATA.")]

USAGE = """usage: disco suite list | show NAME | run NAME | package NAME

A suite is a whole experiment in one file: data, preparation, teacher, distillation, students,
averaging, evaluation, tables. Finished stages are not run again; a stopped one resumes where it was.

  disco suite list          the suites that ship
  disco suite show NAME     the file, and which stages are done
  disco suite run NAME      run all stages, or some with --stage
  disco suite package NAME  one of its models as a directory to pass on

  disco suite run --help    options; results go to the folder DISCO_RUNS, or the user's cache folder"""


def list_suites(json_: Json = False) -> int:
    """The suites that ship."""
    abouts = {name: load_suite(name).about for name in shipped_suites()}
    if json_:
        print(json.dumps(abouts, ensure_ascii=False))
    else:
        width = max(map(len, abouts))
        print("\n".join(f"{name:<{width}}  {about}" for name, about in abouts.items()))
    return 0


def show(name: Name, system: str = "", runs: Runs = None, data: Data = None, json_: Json = False) -> int:
    """The file of a suite, its stages, and which of them are done.

    disco suite show multi30k.en-de

    Args:
        system: Only this system (or NAME@VALUE), as a file that `disco train` reads, with every value.
    """
    suite = load_suite(name)
    if system:
        print(suite.training(system).as_toml(), end="")
        return 0
    stages = Workspace(suite, runs, data).stages()
    if json_:
        summary = [
            {"stage": each.name, "done": each.done, "directory": str(each.directory), "needs": each.needs}
            for each in stages
        ]
        print(json.dumps(summary))
        return 0
    print(find_suite(name).read_text(encoding="utf-8").rstrip())
    width = max(len(stage.name) for stage in stages)
    print("\n# stages")
    for stage in stages:
        print(f"# {stage.name:<{width}}  {'done' if stage.done else '-   '}  {stage.directory}")
    return 0


def run(
    name: Name,
    stage: tuple[str, ...] = (),
    jobs: int = 1,
    threads: int = 1,
    processes: int = 1,
    device: Device = "cpu",
    data: Path | None = None,
    runs: Runs = None,
    quiet: bool = False,
    json_: Json = False,
) -> int:
    """Run the stages of a suite that are not done yet; each is printed as the `disco` command that it is.

    disco suite run multi30k.en-de --data corpora --jobs 2
    disco suite run wmt14.en-de --data corpora --device cuda --processes 8

    Args:
        stage: Only these stages and what they need: such as train:at-raw, or train for all trainings.
        jobs: How many stages run side by side, where they do not need each other.
        threads: Threads of each process.
        processes: Of a training, which torchrun starts: one for each GPU of this machine.
        data: Folder of the corpus, or of corpora; by default DISCO_DATA. What can be downloaded goes there.
        quiet: Print errors only.
    """
    suite = with_possible_reports(load_suite(name), quiet or json_)
    workspace = Workspace(suite, runs, data)
    workspace.run(stage or None, jobs, quiet or json_, threads, processes, device)
    if json_:
        print(json.dumps(_scores(workspace)))
    elif not quiet:
        show_results(workspace)
    return 0


def with_possible_reports(suite: Suite, quiet: bool) -> Suite:
    """Without reports that need systems it does not have, or matplotlib; says so before any work."""
    possible = []
    for name in suite.reports:
        experiment = load(name)
        try:
            experiment.needs(suite)
            if experiment.plots:
                require_matplotlib()
            possible.append(name)
        except UserError as error:
            if not quiet:
                print(f"left out: report:{name}: {error}", flush=True)
    return replace(suite, reports=tuple(possible))


def show_results(workspace: Workspace) -> None:
    """Print the test scores and the first table of each report, as far as they are there."""
    scores = _scores(workspace)
    if scores:
        print(f"\n{markdown(_table(workspace.suite.name, scores))}")
    for stage in workspace.stages():
        if stage.verb == "report" and stage.done:
            print(
                f"\n{first_table(stage.output.read_text(encoding='utf-8'))}\n\nWhole report: {stage.output}"
            )


def _scores(workspace: Workspace) -> dict[str, dict[str, Any]]:
    evaluated = [name for name in workspace.suite.systems if workspace.stage(f"evaluate:{name}").done]
    return {name: workspace.scores(name) for name in evaluated}


def package_model(name: Name, system: str, out: Path, runs: Runs = None, data: Data = None) -> int:
    """Write a system's averaged model in half precision, with scores and examples in its model card.

    disco suite package tatoeba.en-de --system disco-distilled --out en-de

    Args:
        system: Which of its systems.
        out: Model directory to write; it must not exist yet.
    """
    made = package(Workspace(load_suite(name), runs, data), system, out, quiet=False)
    score = f"{made.scored.quality.bleu:.2f} BLEU on the test set in {made.scored.steps:.2f} steps"
    print(f"{out}: {made.megabytes:.1f} MB, {score}")
    return 0


def suite_main(arguments: list[str]) -> int:
    """The verb, and its own verbs."""
    actions: dict[str, Callable[..., int]] = {
        "list": list_suites,
        "show": show,
        "run": run,
        "package": package_model,
    }
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    if arguments[0] not in actions:
        raise UserError(f"unknown: disco suite {arguments[0]}; there are: {', '.join(actions)}")
    return call(actions[arguments[0]], f"suite {arguments[0]}", arguments[1:])


def _table(suite: str, scores: dict[str, dict[str, Any]]) -> Table:
    rows = [
        (system, number(score["bleu"]), number(score["chrf"]), number(score["steps"]))
        for system, score in scores.items()
    ]
    return Table(f"Test set of {suite}", ("system", "BLEU", "chrF", "steps"), tuple(rows))


GREETING = "How long have you lived here?"
SENTENCE = "We visited her parents yesterday because they were sick."
STUDENT = "disco-distilled"  # its trace is shown at the end


def demo(out: Path = Path("demo")) -> int:
    """The shipped model; then corpus -> teacher -> distillation -> students -> tables, and one trace.

    disco demo

    Takes about 5 minutes on two cores. Everything is kept in --out; run it again to resume after a stop.

    Args:
        out: Directory for everything that is made.
    """
    started = time.perf_counter()
    _run("translate", GREETING)
    workspace = Workspace(load_suite("phrasebook"), out)
    print("\n$ disco suite run phrasebook --jobs 2 --runs", shlex.quote(str(out)), flush=True)
    workspace.run(jobs=2 if (os.cpu_count() or 1) > 1 else 1)
    show_results(workspace)
    page = out / "trace.html"
    page.unlink(missing_ok=True)
    model = str(workspace.model(STUDENT))
    _run("trace", SENTENCE, "--model", model, "--iterations", "5", "--html", str(page))
    minutes = (time.perf_counter() - started) / 60
    print(f"\nAll of it took {minutes:.1f} minutes. Open {page} to look closer.")
    return 0


def _run(*arguments: str) -> None:
    """Print a command, and do what it does."""
    from disco_mt.cli import main as disco

    print(f"\n$ disco {shlex.join(arguments)}", flush=True)
    disco([*arguments])
