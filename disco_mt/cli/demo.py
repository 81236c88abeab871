"""disco demo: the whole paper in minutes, on a corpus that needs no download.

Every stage is a command that can be typed, and is printed before it runs. A stage whose output is there is
not run again, so a demo that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from disco_mt.core.errors import UserError

GREETING = "How long have you lived here?"
SENTENCE = "We visited her parents yesterday because they were sick."


@dataclass(frozen=True)
class Row:
    """A line of the final table."""

    system: str
    model: str  # folder of the model
    options: tuple[str, ...]


ROWS = (
    Row("AT teacher, beam 5", "teacher", ("--strategy", "beam", "--beam", "5")),
    Row("AT teacher, greedy", "teacher", ("--strategy", "greedy")),
    Row("DisCo on raw pairs, one pass", "disco-raw", ("--strategy", "easy-first", "--iterations", "1")),
    Row("DisCo on raw pairs, easy-first", "disco-raw", ("--strategy", "easy-first", "--iterations", "10")),
    Row("CMLM distilled, mask-predict T=4", "cmlm", ("--strategy", "mask-predict", "--iterations", "4")),
    Row("CMLM distilled, mask-predict T=10", "cmlm", ("--strategy", "mask-predict", "--iterations", "10")),
    Row("DisCo distilled, mask-predict T=4", "disco", ("--strategy", "mask-predict", "--iterations", "4")),
    Row("DisCo distilled, easy-first", "disco", ("--strategy", "easy-first", "--iterations", "10")),
)


def demo(out: Path = Path("demo")) -> int:
    """The shipped model; then phrasebook -> teacher -> distillation -> students -> one table, one trace.

    disco demo

    Takes under ten minutes on two cores. Everything is kept in --out; run it again to go on after a stop.

    Args:
        out: Directory for everything that is made.
    """
    started = time.perf_counter()
    stages = Stages(out)
    stages.greet()
    stages.corpus()
    stages.together(lambda: stages.train("teacher", "raw"), lambda: stages.train("disco-raw", "raw"))
    stages.distil()
    stages.together(lambda: stages.train("cmlm", "distilled"), lambda: stages.train("disco", "distilled"))
    print("\n".join(["", *table([(row.system, stages.evaluate(row)) for row in ROWS])]))
    stages.trace()
    minutes = (time.perf_counter() - started) / 60
    print(f"\nAll of it took {minutes:.1f} minutes. Open {out / 'trace.html'} to look closer.")
    return 0


@dataclass(frozen=True)
class Stages:
    """The stages, each a `disco` command in the folder `out`."""

    out: Path

    def greet(self) -> None:
        """A sentence by the model that ships."""
        self._run("translate", GREETING, echo=True)

    def corpus(self) -> None:
        """Text, and its ids."""
        text = self.out / "text"
        self._once(text, "corpus", "phrasebook", "--out", str(text))
        arguments = ["--source-language", "en", "--target-language", "de", "--vocabulary-size", "2000"]
        arguments += ["--source", str(text / "train.en"), "--target", str(text / "train.de")]
        for split in ("valid", "test"):
            arguments += [f"--{split}-source", str(text / f"{split}.en")]
            arguments += [f"--{split}-target", str(text / f"{split}.de")]
            arguments += [f"--{split}-references", str(text / f"{split}.references.tsv")]
        self._once(self.out / "raw", "prepare", *arguments, "--out", str(self.out / "raw"), "--quiet")

    def train(self, name: str, data: str) -> None:
        """Train a model and average its best checkpoints."""
        run, model = self.out / f"{name}.run", self.out / name
        if model.exists():
            return
        resume = ("--resume",) if run.exists() else ()
        recipe = f"phrasebook.{name.removesuffix('-raw')}"
        where = ("--data", str(self.out / data), "--out", str(run), "--threads", "1")
        self._run("train", recipe, *where, *resume, label=name)
        self._run("average", str(run), "--out", str(model), "--number", "3", label=name)

    def distil(self) -> None:
        """The teacher's translations instead of the references."""
        out = self.out / "distilled"
        teacher, raw = str(self.out / "teacher"), str(self.out / "raw")
        self._once(out, "distill", "--model", teacher, "--data", raw, "--out", str(out), "--quiet")

    def evaluate(self, row: Row) -> dict[str, Any]:
        """One system on the test set, one sentence at a time, against all references."""
        text = self.out / "text"
        files = ("--source", str(text / "test.en"), "--references", str(text / "test.references.tsv"))
        where = ("--model", str(self.out / row.model), "--batch-tokens", "1", "--threads", "1")
        printed = self._run("evaluate", *where, *files, *row.options, "--quiet", "--json")
        found: dict[str, Any] = json.loads(printed)
        return found

    def trace(self) -> None:
        """One sentence, pass by pass, in the terminal and as a page."""
        page = self.out / "trace.html"
        page.unlink(missing_ok=True)
        self._run(
            "trace",
            SENTENCE,
            "--model",
            str(self.out / "disco"),
            "--iterations",
            "5",
            "--html",
            str(page),
            echo=True,
        )

    def together(self, *jobs: Any) -> None:
        """Two trainings side by side, one core each."""
        with ThreadPoolExecutor(len(jobs)) as pool:
            for job in [pool.submit(job) for job in jobs]:
                job.result()

    def _once(self, made: Path, *arguments: str) -> None:
        if not made.exists():
            self._run(*arguments)

    def _run(self, *arguments: str, label: str = "", echo: bool = False) -> str:
        """Print a command, run it, show what it says; returns its standard output."""
        with _PRINTING:
            print(f"\n$ disco {shlex.join(arguments)}", flush=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "disco_mt", *arguments],
            stdout=None if echo else subprocess.PIPE,
            stderr=None if echo else subprocess.STDOUT if label else None,
            text=True,
            encoding="utf-8",
            env={**os.environ, **({"OMP_NUM_THREADS": "1"} if label else {})},
        )
        printed = []
        for line in process.stdout or ():
            printed.append(line)
            if label:
                with _PRINTING:
                    print(f"[{label}] {line}", end="", flush=True)
        if process.wait():
            raise UserError(
                f"the stage `disco {arguments[0]}` failed (exit code {process.returncode}); see above"
            )
        return "".join(printed)


_PRINTING = threading.Lock()


def table(rows: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """The rows as a Markdown table."""
    lines = ["| system | BLEU | steps | ms a sentence |", "|---|---:|---:|---:|"]
    for system, found in rows:
        lines.append(
            f"| {system} | {found['bleu']:.1f} | {found['steps']:.2f} | {found['milliseconds']:.1f} |"
        )
    lines += [
        "",
        "Phrasebook test, all references; one sentence at a time on one thread, tokenisation included, each",
        "system measured once. At this toy size the time is overhead more than arithmetic.",
    ]
    return lines
