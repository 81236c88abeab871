"""disco demo: a translation by the shipped model; then the suite `phrasebook`, the whole paper in minutes."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path

from disco_mt.cli.suite import show_results
from disco_mt.suites.suite import load_suite
from disco_mt.suites.workspace import Workspace

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
