"""disco corpus: write a known corpus as plain text files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro

from disco_mt.cli.common import writing
from disco_mt.core.files import refuse_existing
from disco_mt.data.phrasebook import write_phrasebook


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
