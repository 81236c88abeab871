"""disco distill: a teacher's translations of a dataset -> a new dataset."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass

from disco_mt.cli.common import Json, Quiet, Threads, call, use_threads
from disco_mt.distill.run import DistillOptions, DistillReport, distill


@dataclass(frozen=True)
class DistillCommand:
    """Translate the training sources of a dataset with a teacher: its output becomes the new target side.

    Valid and test stay as they are. Stopped or killed, the same command goes on with what is missing.

    disco distill --model teacher --data data --out data.distilled
    """

    options: DistillOptions
    threads: Threads = 0
    quiet: Quiet = False
    json_: Json = False


def run(command: DistillCommand, line: str) -> int:
    """Distil, and say what came of it. line: the command as it was typed."""
    use_threads(command.threads)
    report = distill(command.options, line, command.quiet)
    print(json.dumps(asdict(report), default=str) if command.json_ else _sentence(report))
    return 0


def main(arguments: list[str]) -> int:
    """The verb."""
    return run(call(DistillCommand, "distill", arguments), shlex.join(["disco", "distill", *arguments]))


def _sentence(report: DistillReport) -> str:
    dropped = ", ".join(f"{number:,} {reason}" for reason, number in report.dropped.items() if number)
    return f"{report.out}: {report.pairs:,} training pairs; dropped: {dropped or 'none'}"
