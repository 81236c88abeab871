"""Running stages: each is a `disco` command that is printed, then run as a process of its own.

A killed stage resumes when it is run again: training from its last checkpoint, distillation with the missing
shards; the others are short and begin anew. A finished one has done.json.
"""

from __future__ import annotations

import json
import platform
import shlex
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING

from disco_mt.core.errors import UserError
from disco_mt.core.files import write_text
from disco_mt.data.dataset import Dataset
from disco_mt.data.sources import text_files
from disco_mt.data.subset import write_subset
from disco_mt.engine import ctranslate2
from disco_mt.suites.choose import choose
from disco_mt.suites.processes import Commands, StoppedError, locked
from disco_mt.suites.stages import (
    CORPUS,
    DONE,
    OTHER_PAIRS,
    RECIPE,
    SCORES,
    Stage,
    command,
    prepare_command,
)
from disco_mt.version import __version__

if TYPE_CHECKING:
    from disco_mt.suites.workspace import Workspace


@dataclass
class Runner:
    """Runs stages of a suite, `jobs` at a time."""

    workspace: Workspace
    commands: Commands
    jobs: int
    quiet: bool
    printing: threading.Lock = field(default_factory=threading.Lock)

    def run(self, wanted: list[Stage]) -> None:
        """Run those that are not done, each as soon as what it needs is there."""
        waiting = {stage.name: stage for stage in wanted if not stage.done}
        self._check_distillations([stage for stage in waiting.values() if stage.verb == "distill"])
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                self._run(waiting, pool)
            except BaseException:  # Ctrl-C, SIGTERM: no child is left behind
                self.commands.stop()
                raise

    def _check_distillations(self, stages: list[Stage]) -> None:
        """Refuse what cannot be had now, not only after hours of training the teacher."""
        distillation = self.workspace.suite.distill
        if not stages or distillation is None:
            return
        if distillation.engine == "ctranslate2":
            ctranslate2.check_installed()
        for stage in stages:
            for pair in distillation.more[stage.system].other_pairs if stage.system else []:
                self.workspace.files(pair)

    def _run(self, waiting: dict[str, Stage], pool: ThreadPoolExecutor) -> None:
        """After a failure nothing new is started, but what runs side by side may end well."""
        running: dict[Future[None], str] = {}
        failures: list[BaseException] = []
        while running or (waiting and not failures):
            for stage in [] if failures else self._ready(waiting, {*running.values()}):
                running[pool.submit(self._run_alone, stage)] = waiting.pop(stage.name).name
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                if error := future.exception():
                    failures.append(error)
                    self._say(f"{name} failed" + ("; the other stages are finished" if running else ""))
        if failures:
            raise failures[0]

    def _ready(self, waiting: dict[str, Stage], running: set[str]) -> list[Stage]:
        """The stages to start now: all they need has been made, and there is a job for them."""
        missing = running | {*waiting}
        free = self.jobs - len(running)
        return [stage for stage in waiting.values() if missing.isdisjoint(stage.needs)][:free]

    def _run_alone(self, stage: Stage) -> None:
        """Run a stage, unless another process has done so meanwhile."""
        with locked(stage.directory, self._patience(stage)) as lock:
            if stage.done:
                return
            started = time.perf_counter()
            arguments = self._make(stage, lock)
            self._mark_done(stage, arguments, time.perf_counter() - started)

    def _make(self, stage: Stage, lock: int) -> list[str]:
        """Do the work; returns the arguments of the command that did it, if it was one."""
        if stage.verb == "choose":
            self._choose(stage)
            return []
        if stage.verb == "subset":
            self._subset(stage)
            return []
        arguments = self._arguments(stage)
        # A run may have to be resumed; all other outputs get their name only when they are whole.
        if stage.verb == "train" or not stage.output.exists():
            self._call(stage, arguments, lock)
        return arguments

    def _patience(self, stage: Stage) -> Callable[[], None]:
        """What to do while another process has the stage: say so once."""
        told = threading.Event()

        def wait_for_it() -> None:
            if self.commands.stopping:
                raise StoppedError(f"{stage.name} was not begun")
            if not told.is_set():
                self._say(f"{stage.name}: another process is at work in {stage.directory}; waiting for it")
                told.set()

        return wait_for_it

    def _arguments(self, stage: Stage) -> list[str]:
        """The command of a stage, after the files that it reads have been written."""
        suite, stages = self.workspace.suite, {each.name: each for each in self.workspace.stages()}
        if stage.verb == "prepare":
            files = self.workspace.files(suite.data.languages)
            splits = text_files(files, stage.directory / "text", suite.data.limit)
            return prepare_command(stage, suite, splits)
        if stage.verb == "train":
            write_text(stage.directory / RECIPE, suite.training(stage.system).as_toml())
        if stage.verb == "evaluate":  # a killed process may have left hypotheses without scores
            stage.output.unlink(missing_ok=True)
        arguments = command(stage, stages, suite, self.commands.threads, self.commands.device)
        return [*arguments, *self._more_sources(stage), *self._known(stage)]

    def _more_sources(self, stage: Stage) -> list[str]:
        """The training sources of other pairs of the corpus, if they are to be translated, too."""
        distillation = self.workspace.suite.distill
        if stage.verb != "distill" or not stage.system or not distillation:
            return []
        found = []
        for pair in distillation.more[stage.system].other_pairs:
            splits = text_files(self.workspace.files(pair), stage.directory / f"text-{'-'.join(pair)}")
            found.append(str(splits["train"].source))
        return ["--more-sources", *found] if found else []

    def _known(self, stage: Stage) -> list[str]:
        """What the same teacher has translated in other stages: it need not do so again."""
        if stage.verb != "distill":
            return []
        others = [each for each in self.workspace.stages() if each.verb == "distill" and each != stage]
        found = [str(each.output) for each in others if each.done and each.output.is_dir()]
        return ["--reuse", *found] if found else []

    def _choose(self, stage: Stage) -> None:
        scores = choose({name: self.workspace.stage(name).output for name in stage.needs}, stage.output)
        best = max(scores.values())
        self._say(f"\n{stage.name}: the best by dev BLEU")
        for name, score in scores.items():
            self._say(f"{name}  {score:.2f}{'  <- chosen' if score == best else ''}")

    def _subset(self, stage: Stage) -> None:
        whole = self.workspace.stage(stage.needs[0]).output
        pairs = max(1, len(Dataset.open(whole).splits["train"]) // stage.inputs["part"])
        self._say(f"\n{stage.name}: {pairs:,} of the training pairs of {whole}")
        if not stage.output.exists():
            write_subset(whole, stage.output, pairs)

    def _call(self, stage: Stage, arguments: list[str], lock: int) -> None:
        """Print a command, run it, show what it says."""
        self._say(f"\n{stage.name}\n$ {shlex.join(['disco', *arguments])}")
        scoring, reporting = stage.verb == "evaluate", stage.verb == "report"
        label = f"[{stage.name}] " if self.jobs > 1 else ""
        lines: list[str] = []

        def show(line: str) -> None:
            lines.append(line)
            if not scoring and not reporting:  # whoever runs the stages shows the tables at the end
                self._say(f"{label}{line}")

        options = ["--json", "--quiet"] if scoring else ["--quiet"] if self._hushed(stage) else []
        merge = self.jobs > 1 and not self.quiet and not scoring and not reporting
        code = self.commands.run([*arguments, *options], lock, show, merge)
        if code:
            raise UserError(
                f"{stage.name} failed with exit code {code} (see above): disco {shlex.join(arguments)}"
            )
        if scoring:
            write_text(stage.directory / SCORES, "\n".join(lines) + "\n")

    def _hushed(self, stage: Stage) -> bool:
        return self.quiet and stage.verb != "average"  # which is quick, and has no such option

    def _mark_done(self, stage: Stage, arguments: list[str], seconds: float) -> None:
        """The last thing: what is not marked is run again."""
        if "files" in stage.inputs:
            name = CORPUS if stage.verb == "prepare" else OTHER_PAIRS
            write_text(self.workspace.folder / name, json.dumps(stage.inputs["files"], indent=2) + "\n")
        versions = {"disco_mt": __version__, "torch": version("torch"), "python": platform.python_version()}
        marker = {
            "stage": stage.name,
            "inputs": stage.inputs,
            "command": shlex.join(["disco", *arguments]) if arguments else "",
            "seconds": round(seconds, 3),
            "versions": versions,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        write_text(stage.directory / DONE, json.dumps(marker, indent=2, ensure_ascii=False) + "\n")
        self._say(f"{stage.name} is done ({seconds:,.0f} s)")

    def _say(self, text: str) -> None:
        if not self.quiet:
            with self.printing:
                print(text, flush=True)
