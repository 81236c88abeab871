"""disco shortlist: a dataset -> for each source token the target tokens that may go with it."""

from __future__ import annotations

from pathlib import Path

from disco_mt.cli.common import writing
from disco_mt.core.files import refuse_existing
from disco_mt.core.settings import at_least
from disco_mt.data.dataset import Dataset
from disco_mt.engine.shortlist import Shortlist


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
