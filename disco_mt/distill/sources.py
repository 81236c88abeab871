"""More sources for a teacher to translate. A student learns from the translations, so they need none.

`with_more`: sentences of the same language from other text. `with_spliced`: the beginning of one sentence and
the end of another. Where two sentences have the same three tokens, one can go on as the other: "A man in a
[blue shirt is] asleep." and "The boy with a [blue shirt is] waving." give "A man in a blue shirt is waving."
Sentences of valid and test are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from disco_mt.core.errors import UserError
from disco_mt.core.files import sha256
from disco_mt.data.dataset import Dataset, Ids, Side
from disco_mt.text.lines import letters, read_lines

_AT_ONCE = 8192  # lines that are encoded together
SHARED = 3  # tokens at the seam of a spliced sentence: with two, many sentences make no sense
_BITS = 64 // SHARED  # of a token's id in the key of a seam; ids are below 2^21
_DRAWS = 20  # seams looked at for each sentence that is wanted
_SEED = 1


class HeldOut:
    """The sources of valid and test, compared by their letters: another comma makes no other sentence."""

    def __init__(self, dataset: Dataset) -> None:
        self._text = dataset.text.source
        self._splits = [split for name, split in dataset.splits.items() if name != "train"]

    @cached_property
    def _letters(self) -> set[str]:
        return {letters(line) for split in self._splits for line in split.source_text()}

    def has(self, line: str) -> bool:
        """Is it one of them, or nothing at all?"""
        found = letters(line)
        return not found or found in self._letters

    def has_ids(self, ids: Iterable[int]) -> bool:
        """The same for a sentence as token ids."""
        return self.has(self._text.decode(ids))


def with_more(dataset: Dataset, files: Sequence[Path]) -> Side:
    """The training sources, then the sentences of `files` that are new, in their order."""
    source = dataset.splits["train"].source
    return _extended(source, list(_new_lines(dataset, files)) if files else [])


def _extended(source: Side, new: Sequence[NDArray[Any]]) -> Side:
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


def _new_lines(dataset: Dataset, files: Sequence[Path]) -> Iterator[Ids]:
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


def with_spliced(source: Side, share: float, held_out: Callable[[list[int]], bool]) -> Side:
    """These sentences, and at most `share` times as many new ones.

    All are different, and none of the new ones is held out or longer than the longest of these.
    """
    wanted = round(share * len(source.lengths))
    if not wanted:
        return source
    known = {source[index].tobytes() for index in range(len(source.lengths))}
    longest, found = int(source.lengths.max()), list[NDArray[Any]]()
    for beginning, end in _seams(source, wanted * _DRAWS):
        sentence = np.concatenate([source.ids[slice(*beginning)], source.ids[slice(*end)]])
        if len(sentence) <= longest and sentence.tobytes() not in known:
            known.add(sentence.tobytes())
            if not held_out(sentence.tolist()):
                found.append(sentence)
        if len(found) == wanted:
            break
    return _extended(source, found)


def _seams(source: Side, draws: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where a beginning and an end are that fit: a seam is drawn, then one of all that are like it."""
    places, keys = _places(source)
    if not len(places):
        return
    order = np.argsort(keys, kind="stable")
    places, keys = places[order], keys[order]
    random = np.random.default_rng(_SEED)
    drawn = random.integers(len(places), size=draws)
    first, behind = np.searchsorted(keys, keys[drawn]), np.searchsorted(keys, keys[drawn], side="right")
    seams, others = places[drawn], places[random.integers(first, behind)]
    starts = source.offsets[np.searchsorted(source.offsets, seams, side="right") - 1]
    ends = source.offsets[np.searchsorted(source.offsets, others, side="right")]
    for start, seam, other, end in zip(starts, seams, others, ends, strict=True):
        yield (start, seam), (other, end)


def _places(source: Side) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Where a seam can be, with tokens of the sentence on both sides of it, and the key of its tokens."""
    ids = source.ids.astype(np.uint64)
    keys = np.zeros(max(0, len(ids) - SHARED + 1), dtype=np.uint64)
    for step in range(SHARED):
        keys = (keys << np.uint64(_BITS)) | ids[step : step + len(keys)]
    places = np.arange(len(keys))
    sentence = np.repeat(np.arange(len(source.lengths)), source.lengths)[: len(keys)]
    inner = (places > source.offsets[sentence]) & (places + SHARED < source.offsets[sentence + 1])
    return places[inner], keys[inner]
