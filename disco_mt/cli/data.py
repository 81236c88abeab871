"""disco corpus, prepare, shortlist: text files, a dataset, and which words go together in it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import tyro

from disco_mt.cli.common import Json, Quiet, writing
from disco_mt.core.files import refuse_existing
from disco_mt.core.settings import at_least
from disco_mt.data import prepare as data_prepare
from disco_mt.data.dataset import Dataset
from disco_mt.data.phrasebook import write_phrasebook
from disco_mt.data.prepare import PrepareOptions, PrepareReport
from disco_mt.engine.shortlist import Shortlist


def corpus(name: Annotated[Literal["phrasebook"], tyro.conf.Positional], out: Path, seed: int = 1) -> int:
    """Write a known corpus as text files: train, valid and test, with all references where they are known.

    disco corpus phrasebook --out text

    Args:
        name: phrasebook: the built-in English-German corpus, made by a grammar; nothing is downloaded.
        out: Directory to write; it must not exist yet.
        seed: Another seed makes another sample of sentences.
    """
    refuse_existing(out)
    with writing(out):
        write_phrasebook(out, seed)
    print(f"{out}: {', '.join(sorted(path.name for path in out.iterdir()))}")
    return 0


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


def shortlist(data: Path, out: Path, each: int = 40, common: int = 150) -> int:
    """Count which words go together, so that `disco translate --shortlist` chooses among few.

    disco shortlist --data dataset --out shortlist.safetensors

    Args:
        data: Dataset directory that `disco prepare` wrote; its train split is counted.
        out: File to write; it must not exist yet.
        each: Target tokens for each source token.
        common: The most frequent target tokens, which every sentence may use.
    """
    at_least("each", each, 1)
    at_least("common", common, 1)
    refuse_existing(out)
    dataset = Dataset.open(data)
    train, text = dataset.splits["train"], dataset.text
    sizes = text.source.vocabulary_size, text.target.vocabulary_size
    pairs = ((train.source[place], train.target[place]) for place in range(len(train)))
    found = Shortlist.count(pairs, sizes, each, common)
    with writing(out):
        found.save(out)
    print(f"{out}: {each} tokens for each of {sizes[0]:,}, and {common} for all, from {len(train):,} pairs")
    return 0
