"""disco prepare: parallel text files -> a dataset directory."""

from __future__ import annotations

import json
from dataclasses import asdict

from disco_mt.cli.common import Json, Quiet
from disco_mt.data import prepare as data_prepare
from disco_mt.data.prepare import PrepareOptions, PrepareReport


def prepare(options: PrepareOptions, json_: Json = False, quiet: Quiet = False) -> int:
    """Learn a vocabulary from parallel text and write a dataset directory.

    disco prepare --source train.en --target train.de --source-language en --target-language de
    --valid-source valid.en --valid-target valid.de --vocabulary-size 8000 --out data
    """
    report = data_prepare.prepare(options, quiet)
    print(json.dumps(asdict(report), default=str) if json_ else "\n".join(_lines(report)))
    return 0


def _lines(report: PrepareReport) -> list[str]:
    sizes = f"{report.source_vocabulary_size:,}"
    if not report.joint:
        sizes += f" and {report.target_vocabulary_size:,}"
    lines = [f"{report.out}: {'joint vocabulary' if report.joint else 'vocabularies'} of {sizes} tokens"]
    for name, split in report.splits.items():
        dropped = ", ".join(f"{number:,} {reason}" for reason, number in split.dropped.items() if number)
        tokens = f"{split.source_tokens:,} source and {split.target_tokens:,} target tokens"
        lines.append(f"{name:<6}{split.pairs:>10,} pairs, {tokens}; dropped: {dropped or 'none'}")
    return lines
