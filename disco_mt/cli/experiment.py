"""disco experiment: a table or figure of the paper, ours beside its own."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from disco_mt.cli.common import Device, Runs, Threads, call, use_threads, writing
from disco_mt.core.errors import UserError
from disco_mt.evaluation.quality import read_references
from disco_mt.experiments import EXPERIMENTS, load
from disco_mt.experiments.decode import Lab
from disco_mt.experiments.experiment import Options, run_experiment
from disco_mt.experiments.results import export, named_results, read_results, recompute, recomputed_table
from disco_mt.nn.find import check_device
from disco_mt.reporting.plots import require_matplotlib
from disco_mt.reporting.reports import to_markdown, write_report
from disco_mt.reporting.tables import markdown
from disco_mt.reporting.verdicts import Judge
from disco_mt.suites.suite import load_suite, shipped_suites
from disco_mt.suites.workspace import Workspace

GONE = {
    "--scale": "--scale is gone: name the suite, such as --suite wmt14.en-de",
    "--steps": "--steps is gone: batch-size and data-size compare models of a suite (multi30k-sizes.en-de)",
}
"""Options of earlier versions, and what to use now."""
RENAMED = {"two-readers": "reranking"}


@dataclass(frozen=True)
class ExperimentCommand:
    """Repeat a table or figure of the paper with the models of a suite, and say which of its claims hold.

    disco experiment main --suite multi30k.en-de

    disco experiment speed --threads 1 --out speed

    disco experiment recompute --results docs/results/multi30k.en-de --references test.de

    disco experiment compare test.cmlm test.disco --results docs/results/SUITE --references test.de

    Translations are made once and kept in the workspace; `disco experiment` alone lists the experiments.
    """

    name: tyro.conf.Positional[str]
    """Which experiment."""
    suite: str = "multi30k.en-de"
    """Suite whose models are compared. Default: multi30k.en-de."""
    runs: Runs = None
    data: Path | None = None
    """Folder of the corpus; by default DISCO_DATA. Only needed if the corpus may have changed."""
    out: Path | None = None
    """Folder for report.md and its pictures. Default: experiments/NAME."""
    export: Path | None = None
    """Folder to write all translations to, as steps TAB text, so that scores can be recomputed."""
    device: Device = "cpu"
    threads: Threads = 0
    quiet: bool = False
    """No progress, and no report on standard output."""
    options: Annotated[Options, tyro.conf.arg(name="")] = field(default_factory=Options)


def _run(command: ExperimentCommand) -> int:
    experiment = load(command.name)
    if experiment.plots:
        require_matplotlib()
    use_threads(command.threads)
    check_device(command.device)
    workspace = Workspace(load_suite(command.suite), command.runs, command.data)
    workspace.require_models(experiment.needs(workspace.suite))
    lab = Lab(workspace, command.options.samples, command.device, command.quiet)
    report = run_experiment(experiment, lab, command.options, typed(command))
    folder = command.out or Path("experiments") / command.name
    with writing(folder):
        path = write_report(report, folder)
    if command.export is not None:
        with writing(command.export):
            export(lab, command.name, command.export)
    if not command.quiet:
        print(to_markdown(report))
        print(f"Written to {path}")
    return 0


def typed(command: ExperimentCommand) -> str:
    """The command that makes the same report, without the folders of this machine."""
    suite = command.suite if command.suite in shipped_suites() else Path(command.suite).name
    threads = ["--threads", str(command.threads)] if command.threads else []
    return shlex.join(
        ["disco", "experiment", command.name, "--suite", suite, *threads, *command.options.changed()]
    )


def recompute_scores(
    results: Path,
    references: tuple[Path, ...] = (),
    all_references: Path | None = None,
    valid_references: tuple[Path, ...] = (),
    valid_all_references: Path | None = None,
) -> int:
    """Score committed translations again, without any model; the exit code is 1 if a score is another one.

    disco experiment recompute --results docs/results/multi30k.en-de --references test.de

    Args:
        results: Folder of SPLIT.SYSTEM.STRATEGY.tsv files, each with its .json.
        references: One or more files with one reference per line, for the translations of the test set.
        all_references: A file with all references of each test sentence on one line, separated by tabs.
        valid_references: The same for those of the dev set; without them, these are left out.
        valid_all_references: The same for those of the dev set.
    """
    found = read_results(results)
    given = {"test": (references, all_references), "valid": (valid_references, valid_all_references)}
    lines = {each.split: len(each.texts) for each in found}
    wanted = {
        split: read_references(files, tsv, lines[split])
        for split, (files, tsv) in given.items()
        if (files or tsv) and split in lines
    }
    if not wanted:
        raise UserError("give references: --references FILE (test set) or --valid-references FILE (dev set)")
    again = recompute(found, wanted)
    for name in EXPERIMENTS:
        table = recomputed_table(again, name)
        if table.rows:
            print(markdown(table) + "\n")
    different = sum(not each.agrees for each in again)
    print(f"{len(again)} of {len(found)} files scored again; {different} with another score than recorded.")
    return 1 if different else 0


def compare(
    names: tyro.conf.Positional[tuple[str, ...]],
    results: Path,
    references: tuple[Path, ...] = (),
    all_references: Path | None = None,
    samples: int = 1000,
) -> int:
    """How much BLEU committed translations gain over others, with the interval of a paired bootstrap.

    disco experiment compare test.at-raw.greedy test.at-distilled.greedy --results DIR --references test.de

    Args:
        names: Two files of the folder without .tsv, before and after; or four: how much more is gained from
            the first to the second than from the third to the fourth.
        results: Folder of SPLIT.SYSTEM.STRATEGY.tsv files, each with its .json.
        references: One or more files with one reference per line, for the split of these translations.
        all_references: A file with all references of each sentence on one line, separated by tabs.
        samples: Resampled test sets.
    """
    if len(names) not in (2, 4):
        raise UserError(f"name two files to compare, or four to compare two gains; got {len(names)}")
    found = named_results(results, names)
    wanted = read_references(references, all_references, len(found[0].texts))
    judge = Judge(wanted, found[0].about["target_language"], samples)
    pairs = list(zip(found[::2], found[1::2], strict=True))
    for before, after in pairs:
        print(f"{before.path.stem} -> {after.path.stem}: {judge.difference(after.texts, before.texts)} BLEU")
    if len(pairs) == 2:
        first, second = ((before.texts, after.texts) for before, after in pairs)
        print(f"difference of the gains: {judge.gain_difference(first, second)} BLEU")
    return 0


def experiment_main(arguments: list[str]) -> int:
    """The verb."""
    if not arguments:
        print("\n".join(f"  disco experiment {name:<22}{about}" for name, about in EXPERIMENTS.items()))
        return 0
    for word in arguments:
        if word.partition("=")[0] in GONE:
            raise UserError(GONE[word.partition("=")[0]])
    if arguments[0] in RENAMED:
        raise UserError(f"experiment {arguments[0]} is now {RENAMED[arguments[0]]}")
    if arguments[0] == "recompute":
        return call(recompute_scores, "experiment recompute", arguments[1:])
    if arguments[0] == "compare":
        return call(compare, "experiment compare", arguments[1:])
    return _run(call(ExperimentCommand, "experiment", arguments))
