"""Where the results of a suite are, and how the missing ones are made.

FOLDER/<stage>/<hash of all it depends on>/: an option that changes gives new directories to the stages that
depend on it, and what is finished is never made again. FOLDER/corpus.json remembers the corpus, so that
results can be used where the data are not.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from disco_mt.core.errors import UserError
from disco_mt.core.settings import at_least
from disco_mt.data.dataset import read_description
from disco_mt.data.sources import (
    Languages,
    SourceFiles,
    can_be_obtained,
    data_folder,
    find_files,
    find_other_pair,
    obtain,
)
from disco_mt.suites.processes import Commands
from disco_mt.suites.runner import Runner
from disco_mt.suites.stages import CORPUS, OTHER_PAIRS, SCORES, Stage, data_stage, plan, run_of
from disco_mt.suites.suite import Suite
from disco_mt.training.rundir import read_log

ENVIRONMENT = "DISCO_RUNS"
HASHES = "hashes.json"  # of large files, so that they are not read again


class Workspace:
    """The results of a suite, in a folder of its name."""

    def __init__(self, suite: Suite, runs: Path | None = None, data: Path | None = None) -> None:
        """runs: where that folder is, by default `runs_folder()`. data: the folder of the corpus."""
        self.suite = suite
        self.folder = (runs or runs_folder()) / suite.name
        self._data = data_folder(data)
        self._data_given = data is not None

    def stages(self) -> list[Stage]:
        """All stages, in an order in which they can run."""
        return list(self._stages.values())

    def stage(self, name: str) -> Stage:
        """A stage by its name, or a refusal that lists them."""
        if name not in self._stages:
            raise UserError(f"{self.suite.name} has no stage {name!r}; there are: {', '.join(self._stages)}")
        return self._stages[name]

    def run(
        self,
        stage: str | Sequence[str] | None = None,
        jobs: int = 1,
        quiet: bool = False,
        threads: int = 1,
        processes: int = 1,
        device: str = "cpu",
    ) -> None:
        """Run a stage (or several) and what it needs, or all of them. What is done is not done again.

        stage: a name such as train:disco, or a verb such as train for all stages that begin with it.
        jobs: how many stages run side by side. threads: of each of their processes. processes: of a training
        (one for each GPU of this machine). device: cpu, cuda or mps.
        """
        for name, number in (("jobs", jobs), ("threads", threads), ("processes", processes)):
            at_least(name, number, 1)
        names = (stage,) if isinstance(stage, str) else stage
        wanted = self._wanted(names)
        if not wanted["prepare"].done and self._obtain(quiet):
            wanted = self._wanted(names)  # the corpus is known now, so the stages have other directories
        if names is None:
            wanted = self._possible(wanted, quiet)
        Runner(self, Commands(threads, processes, device), jobs, quiet).run(list(wanted.values()))

    def dataset(self, name: str) -> Path:
        """The directory of a dataset."""
        return self._made(data_stage(name))

    def model(self, system: str) -> Path:
        """The directory of a system's model: the mean of its best checkpoints."""
        self.suite.system(system)
        return self._made(f"average:{system}")

    def run_directory(self, system: str) -> Path:
        """The training run of a system: where there were several, the one that was chosen."""
        name = self._last_training(system)
        self._made(name)
        return run_of(self.stage(name), self._stages)

    def is_trained(self, system: str) -> bool:
        """Is its training at its end?"""
        return self.stage(self._last_training(system)).done

    def _last_training(self, system: str) -> str:
        choice = bool(self.suite.system(system).choose.dropout)
        return f"choose:{system}" if choice else f"train:{system}"

    def updates(self, system: str) -> int:
        """Updates of its training and of the trainings that it started from."""
        start = self.suite.system(system).start
        own = int(read_log(self.run_directory(system))[-1]["step"])
        return own + (self.updates(start) if start else 0)

    def training_seconds(self, system: str) -> float:
        """How long a system was trained, over all sessions, dev scoring left out."""
        entries = read_log(self.run_directory(system))
        return float(entries[-1]["seconds"] - sum(each.get("score_seconds", 0.0) for each in entries))

    def scores(self, system: str) -> dict[str, Any]:
        """What `disco evaluate` found on the test set."""
        self.suite.system(system)
        return read_description(self._made(f"evaluate:{system}").parent, SCORES, "an evaluation")

    def require_models(self, systems: Sequence[str]) -> None:
        """Refuse before any work where models are missing, with the commands that make them."""
        missing = [name for name in systems if not self.stage(f"average:{name}").done]
        if not missing:
            return
        commands = [f"disco suite run {self.suite.name} --stage average:{name}" for name in missing]
        raise UserError(
            f"{len(missing)} of the models to compare are not there yet ({', '.join(missing)}). "
            "Make them, each with all that it needs:\n  " + "\n  ".join(commands)
        )

    def _made(self, name: str) -> Path:
        stage = self.stage(name)
        if not stage.done:
            raise UserError(
                f"{name} of {self.suite.name} is not there yet (looked in {stage.directory}); make it with: "
                f"disco suite run {self.suite.name} --stage {name}"
            )
        return stage.output

    def _wanted(self, names: Sequence[str] | None) -> dict[str, Stage]:
        return self._stages if names is None else self._with_needs(names)

    def _with_needs(self, names: Sequence[str]) -> dict[str, Stage]:
        """Stages by name or verb, with all that they need, in order."""
        wanted: set[str] = set()
        for name in names:
            of_verb = {each.name for each in self.stages() if each.verb == name}
            wanted |= of_verb or {self.stage(name).name}
        for stage in reversed(self.stages()):  # needs come before what needs them
            if stage.name in wanted:
                wanted |= {*stage.needs}
        return {name: stage for name, stage in self._stages.items() if name in wanted}

    def _possible(self, wanted: dict[str, Stage], quiet: bool) -> dict[str, Stage]:
        """Without those that need other pairs of the corpus that are missing; says which."""
        more = self.suite.distill.more if self.suite.distill else {}
        left_out: dict[str, UserError] = {}  # by stage
        for name, stage in wanted.items():  # needs come before what needs them
            try:
                if stage.verb == "distill" and stage.system and not stage.done:
                    for pair in more[stage.system].other_pairs:
                        self.files(pair)
            except UserError as error:
                left_out[name] = error
            for need in stage.needs:
                if need in left_out:
                    left_out[name] = left_out[need]
        if left_out and not quiet:
            print(f"left out: {', '.join(left_out)}: {next(iter(left_out.values()))}", flush=True)
        return {name: stage for name, stage in wanted.items() if name not in left_out}

    @cached_property
    def _stages(self) -> dict[str, Stage]:
        return plan(self.suite, self.folder, self._corpus(), self._other_pairs())

    def _obtain(self, quiet: bool) -> bool:
        """Download the corpus if it is not there and can be downloaded; whether that was done."""
        if not can_be_obtained(self.suite.data.source):
            return False
        data = self.suite.data
        if not quiet:
            print(f"corpus {data.parts.folder or data.source}: what is missing is downloaded", flush=True)
        done = obtain(data.source, self._data, data.languages, data.parts)
        if done:
            del self._stages
        return done

    def files(self, languages: Languages) -> SourceFiles:
        """The files of the corpus in these languages, or a refusal that says which are missing."""
        data = self.suite.data
        if languages != data.languages:
            return find_other_pair(data.source, self._data, languages)
        return find_files(data.source, self._data, languages, data.parts)

    def _corpus(self) -> dict[str, str]:
        """The hashes of the files of the corpus; where it is missing, those of the last run."""
        try:
            return self.files(self.suite.data.languages).hashes(self.folder / HASHES)
        except UserError:
            if self._data_given and not can_be_obtained(self.suite.data.source):
                raise
            return self._remembered(CORPUS)

    def _other_pairs(self) -> dict[str, str]:
        """The same for the training text of all also_from, by pair and file."""
        more = self.suite.distill.more.values() if self.suite.distill else ()
        pairs = dict.fromkeys(pair for each in more for pair in each.other_pairs)
        try:
            found = {"-".join(pair): self.files(pair).hashes() for pair in pairs}
        except UserError:
            return self._remembered(OTHER_PAIRS)
        held_out = ("valid.", "test.")
        return {
            f"{pair}.{name}": hash_
            for pair, files in found.items()
            for name, hash_ in files.items()
            if not name.startswith(held_out)
        }

    def _remembered(self, name: str) -> dict[str, str]:
        known = (self.folder / name).is_file()
        return dict(read_description(self.folder, name, "a workspace")) if known else {}


def runs_folder() -> Path:
    """DISCO_RUNS, or `disco-mt/runs` in the user's cache folder."""
    if ENVIRONMENT in os.environ:
        return Path(os.environ[ENVIRONMENT])
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "disco-mt" / "runs"
