"""disco bench: models and engines side by side, measured fairly."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated

import tyro

from disco_mt.bench.compare import costs
from disco_mt.bench.entries import Size, choose
from disco_mt.bench.inputs import Inputs, model_inputs, random_inputs, suite_inputs
from disco_mt.bench.measure import Measured, Plan, measure
from disco_mt.bench.report import About, make_report
from disco_mt.bench.scaling import scaling_entries, scaling_plan, scaling_report
from disco_mt.bench.sentences import record_structures, write_structures
from disco_mt.cli.common import call, writing
from disco_mt.core.errors import UserError
from disco_mt.core.files import refuse_existing
from disco_mt.core.progress import stage
from disco_mt.core.settings import at_least
from disco_mt.evaluation.quality import measure as score
from disco_mt.reporting.plots import require_matplotlib
from disco_mt.reporting.reports import Report, to_markdown, write_report
from disco_mt.reporting.timing import spread
from disco_mt.reporting.verdicts import Judge
from disco_mt.suites.suite import load_suite
from disco_mt.suites.workspace import Workspace
from disco_mt.text.lines import read_lines
from disco_mt.translator import Translator


@dataclass(frozen=True)
class BenchCommand:
    """Time DisCo beside CTranslate2's autoregressive translation: same machine, same run, taking turns.

    disco bench --quick

    disco bench --size base --out base

    disco bench --size base --only "6-6 beam 5 int8" --only "DisCo 6-6 int8"

    disco bench --models disco cmlm at --source test.en --reference test.de --out trained

    Without --models or --suite weights are random, and the table says what follows from that.
    """

    size: Size = "base"
    """Sizes of random models: base (the paper's, 6+6 layers, 512 wide) or desk (3+3, 128)."""
    models: tuple[str, ...] = ()
    """Trained models instead: directories, shipped names, ids on the hub."""
    suite: str = ""
    """Or the trained models of a suite, on its test set."""
    source: Path | None = None
    """With --models: a file of sentences to translate."""
    reference: tuple[Path, ...] = ()
    """With --models: their translations, for BLEU."""
    lengths: tuple[int, ...] = (25,)
    """Random weights: tokens of the sentences; several lengths give a table and a curve."""
    structure: str = ""
    """Random weights: pass structures of easy-first, multi30k (recorded from a trained model) or a file that
    --record wrote. Default: a fixed one of five passes at the --lengths."""
    sentences: int = 5
    """Sentences that are translated one at a time (of each length, where weights are random)."""
    repeats: int = 5
    """How often every system translates them, in turns."""
    threads: tuple[int, ...] = ()
    """Numbers of threads to try. Default: 1 and all cores."""
    batches: tuple[int, ...] = (8, 32)
    """Sentences in a batch, to find the best."""
    batch_sentences: int = 32
    """Sentences that are translated in batches."""
    only: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """Systems whose label has these words; may be given several times. Default: all."""
    shortlist: str = ""
    """With --models or --suite: a file of `disco shortlist`; what can use it is timed with it, too."""
    scaling: bool = False
    """Instead: time of a pass by length up to 100 tokens, and by K, with fitted exponents."""
    record: Path | None = None
    """Instead: write the pass structures of a trained disco model (--models, --source) to this file."""
    quick: bool = False
    """A minute instead of many: desk size, two sentences, two repeats, one thread."""
    runs: Path | None = None
    """With --suite: folder of results; by default DISCO_RUNS, or the user's cache folder."""
    out: Path | None = None
    """Folder to write: report.md, measurements.json, plots. It must not exist yet."""
    json: bool = False
    """Print the measurements as JSON instead of the report."""
    quiet: bool = False
    """No progress."""

    def __post_init__(self) -> None:
        for name in ("sentences", "repeats", "batch_sentences"):
            at_least(f"--{name.replace('_', '-')}", getattr(self, name), 1)
        for name in ("lengths", "batches", "threads"):
            for value in getattr(self, name):
                at_least(f"--{name}", value, 1)
        if not self.lengths:
            raise UserError("--lengths needs at least one length")
        if self.models and self.suite:
            raise UserError("give --models or --suite, not both")
        if (self.source or self.reference) and not self.models:
            raise UserError("--source and --reference go with --models")

    def typed(self) -> str:
        """The command that measures the same, without the folders of this machine."""
        left_out = ("out", "json", "quiet", "runs", "record")
        words = ["disco", "bench"]
        for each in fields(self):
            value = getattr(self, each.name)
            if value == each.default or each.name in left_out:
                continue
            option = f"--{each.name.replace('_', '-')}"
            if each.name == "only":
                words += [word for only in value for word in (option, only)]
            elif isinstance(value, bool):
                words.append(option)
            else:
                values = value if isinstance(value, tuple) else (value,)
                words += [option, *(_plain(one) for one in values)]
        return shlex.join(words)


def _plain(value: object) -> str:
    """Paths by their names alone."""
    return Path(str(value)).name if isinstance(value, Path) or "/" in str(value) else str(value)


def run(command: BenchCommand) -> int:
    if command.record is not None:
        return _record(command, command.record)
    if command.out is not None:
        refuse_existing(command.out)
        require_matplotlib()
    typed = command.typed()
    if command.quick:
        command = quick(command)
    report = _scaling(command, typed) if command.scaling else _compared(command, typed)
    if command.out is not None:
        with writing(command.out):
            write_report(report, command.out)
    print(json.dumps(report.data) if command.json else to_markdown(report, pictures=False))
    return 0


def _scaling(command: BenchCommand, typed: str) -> Report:
    entries = choose(scaling_entries(command.size), command.only)
    sentences, plan = scaling_plan(command.size, command.repeats, command.quick)
    plan = replace(plan, threads=command.threads[:1] or (1,))
    with stage("measuring", plan.turns() * len(entries), command.quiet) as advance:
        measured = measure(entries, sentences, plan, advance, _warn)
    _warn_if_busy(measured)
    return scaling_report(measured, command.size, typed)


def _compared(command: BenchCommand, typed: str) -> Report:
    inputs = _inputs(command).shortlisted(command.shortlist)
    entries = choose(inputs.entries, command.only)
    threads = command.threads or tuple(dict.fromkeys((1, os.cpu_count() or 1)))
    plan = Plan(threads=threads, repeats=command.repeats, sizes=command.batches)
    plan = inputs.plan(plan, command.sentences, command.batch_sentences)
    with stage("measuring", plan.turns() * len(entries), command.quiet) as advance:
        measured = measure(entries, inputs.sentences, plan, advance, _warn)
    report = make_report(measured, _about(measured, inputs, typed))
    _warn_if_busy(measured)
    return report


def _record(command: BenchCommand, path: Path) -> int:
    if len(command.models) != 1 or command.source is None:
        raise UserError("--record needs one trained disco model and its input: --models DIR --source FILE")
    refuse_existing(path)
    translator = Translator.from_pretrained(command.models[0])
    lines = spread(list(read_lines(command.source)), command.sentences)
    found, work = record_structures(translator, lines)
    with writing(path):
        write_structures(found, Path(command.models[0]).name, path)
    share = 100 * work.rows / max(1, work.plain_rows)
    print(f"{path}: {len(found)} sentences, {share:.1f} % of the plain algorithm's rows")
    return 0


def quick(command: BenchCommand) -> BenchCommand:
    """As little as says something; what was asked for in particular stays."""
    small = {"size": "desk", "sentences": 2, "repeats": 2, "threads": (1,), "batches": (8,)}
    small |= {"batch_sentences": 8}
    defaults = {each.name: each.default for each in fields(BenchCommand)}
    asked = {name: getattr(command, name) for name in small if getattr(command, name) != defaults[name]}
    return replace(command, **(small | asked))  # type: ignore[arg-type]


def _inputs(command: BenchCommand) -> Inputs:
    if command.models:
        return model_inputs(command.models, command.source, command.reference)
    if command.suite:
        return suite_inputs(Workspace(load_suite(command.suite), command.runs))
    return random_inputs(command.size, command.lengths, command.sentences, command.structure)


def _about(measured: Measured, inputs: Inputs, command: str) -> About:
    if not inputs.references:
        return About(inputs.title, command, inputs.clock, {})
    qualities = {
        result.label: score([each.text for each in result.outcomes], inputs.references, inputs.language)
        for result in measured.alive
    }
    costs_ = tuple(costs(measured, Judge(inputs.references, inputs.language)))
    return About(inputs.title, command, inputs.clock, qualities, costs_)


def _warn_if_busy(measured: Measured) -> None:
    if measured.load.busy:
        _warn(measured.load.warning())


def _warn(text: str) -> None:
    print(f"disco: warning: {text}", file=sys.stderr)


def bench_main(arguments: list[str]) -> int:
    return run(call(BenchCommand, "bench", arguments))
