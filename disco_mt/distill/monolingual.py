"""More sources for a teacher to translate: sentences of the same language from other text.

A student learns from its teacher's translations, so its sources need none of their own. What valid and test
have is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np

from disco_mt.core.errors import UserError
from disco_mt.core.files import sha256
from disco_mt.data.dataset import Dataset, Ids, Side
from disco_mt.distill.test_overlap import HeldOut
from disco_mt.text.lines import read_lines

_AT_ONCE = 8192  # lines that are encoded together


def with_more(dataset: Dataset, files: Sequence[Path]) -> Side:
    """The training sources, then the sentences of `files` that are new, in their order."""
    source = dataset.splits["train"].source
    new = list(_new_sentences(dataset, files)) if files else []
    if not new:
        return source
    ends = source.offsets[-1] + np.cumsum([len(sentence) for sentence in new], dtype=np.int64)
    return Side(np.concatenate([source.ids, *new]), np.concatenate([source.offsets, ends]))


def fingerprints(files: Sequence[Path]) -> list[str]:
    """The SHA-256 of each file."""
    try:
        return [sha256(path) for path in files]
    except OSError as error:
        raise UserError(f"cannot read {error.filename}: {error.strerror}") from error


def _new_sentences(dataset: Dataset, files: Sequence[Path]) -> Iterator[Ids]:
    """Neither in train nor seen before, as token ids."""
    source = dataset.splits["train"].source
    known = {source[index].tobytes() for index in range(len(source.lengths))}
    held_out, lines = HeldOut(dataset), chain.from_iterable(read_lines(path) for path in files)
    for ids in _encoded(dataset, (line for line in lines if not held_out.has(line))):
        if (key := ids.tobytes()) not in known:
            known.add(key)
            yield ids


def _encoded(dataset: Dataset, lines: Iterable[str]) -> Iterator[Ids]:
    kind, rest = dataset.splits["train"].source.ids.dtype, iter(lines)
    while some := list(islice(rest, _AT_ONCE)):
        for ids in dataset.text.source.encode_batch(some):
            yield np.array(ids, dtype=kind)
