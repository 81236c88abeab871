"""disco distill: a teacher's translations of a dataset -> a new dataset."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass

from disco_mt.cli.common import Json, Quiet, Threads, call, use_threads
from disco_mt.distill.run import DistillOptions, distill


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


def distill_main(arguments: list[str]) -> int:
    """Distil, and say how many pairs there are."""
    command = call(DistillCommand, "distill", arguments)
    use_threads(command.threads)
    report = distill(command.options, shlex.join(["disco", "distill", *arguments]), command.quiet)
    dropped = ", ".join(f"{number:,} {reason}" for reason, number in report.dropped.items() if number)
    sentence = f"{report.out}: {report.pairs:,} training pairs; dropped: {dropped or 'none'}"
    print(json.dumps(asdict(report), default=str) if command.json_ else sentence)
    return 0
