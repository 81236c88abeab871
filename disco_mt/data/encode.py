"""Sentence pairs -> the flat files of a split: encoded in chunks, unfit pairs dropped and counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from disco_mt.data.dataset import id_type
from disco_mt.progress import Advance
from disco_mt.text.pair import TextPair
from disco_mt.text.tokenizer import Tokenizer

CHUNK = 8192  # pairs encoded at a time
DROP_REASONS = ("empty", "too long", "lop-sided")
SHORT = 10  # tokens: up to here a ratio of lengths says nothing ("Thanks." / "Ich bedanke mich.")


@dataclass(frozen=True)
class Limits:
    """Which training pairs are kept; lengths are in tokens, without EOS."""

    max_length: int
    max_ratio: float  # of the longer side to the shorter one


@dataclass(frozen=True)
class SplitReport:
    """What a split has, and how many pairs were dropped for which reason."""

    pairs: int
    source_tokens: int
    target_tokens: int
    dropped: dict[str, int]


def write_split(
    stem: Path, pairs: Iterable[tuple[str, str]], text: TextPair, limits: Limits | None, advance: Advance
) -> SplitReport:
    """Write `stem`.source.bin, .source.idx, .target.bin and .target.idx. Without limits all are kept."""
    dropped = np.zeros(1 + len(DROP_REASONS), dtype=np.int64)
    with (
        _side_writer(f"{stem}.source", text.source) as source,
        _side_writer(f"{stem}.target", text.target) as target,
    ):
        for chunk in _chunks(pairs):
            source_ids = text.source.encode_batch([pair[0] for pair in chunk])
            target_ids = text.target.encode_batch([pair[1] for pair in chunk])
            reasons = _reasons(source_ids, target_ids, limits)
            source.append(source_ids, keep=reasons == 0)
            target.append(target_ids, keep=reasons == 0)
            dropped += np.bincount(reasons, minlength=len(dropped))
            advance(len(chunk))
    counts = dict(zip(DROP_REASONS, map(int, dropped[1:]), strict=True)) if limits else {}
    return SplitReport(int(dropped[0]), source.tokens, target.tokens, counts)


def _reasons(source: list[list[int]], target: list[list[int]], limits: Limits | None) -> NDArray[np.int64]:
    """For each pair 0 (kept), or 1 + the index of the first of DROP_REASONS that applies."""
    if limits is None:
        return np.zeros(len(source), dtype=np.int64)
    lengths = np.array([list(map(len, source)), list(map(len, target))], dtype=np.int64)  # (2, pairs)
    shorter, longer = lengths.min(axis=0), lengths.max(axis=0)
    too_long = longer > limits.max_length
    lop_sided = (longer > SHORT) & (longer > limits.max_ratio * shorter)
    return np.select([shorter == 0, too_long, lop_sided], [1, 2, 3], default=0)


class _SideWriter:
    """Appends sentences to a file of ids and a file of offsets."""

    def __init__(self, ids: BinaryIO, offsets: BinaryIO, dtype: np.dtype[Any]) -> None:
        self.tokens = 0
        self._ids, self._offsets, self._type = ids, offsets, dtype
        self._offsets.write(np.zeros(1, dtype="<i8").tobytes())

    def append(self, sentences: list[list[int]], keep: NDArray[np.bool_]) -> None:
        kept = [ids for ids, good in zip(sentences, keep, strict=True) if good]
        ends = self.tokens + np.cumsum([len(ids) for ids in kept], dtype="<i8")
        self._offsets.write(ends.tobytes())
        flat = np.fromiter(chain.from_iterable(kept), dtype=self._type)
        self._ids.write(flat.tobytes())
        self.tokens += len(flat)


@contextmanager
def _side_writer(stem: str, tokenizer: Tokenizer) -> Iterator[_SideWriter]:
    with ExitStack() as stack:
        ids = stack.enter_context(Path(f"{stem}.bin").open("wb"))
        offsets = stack.enter_context(Path(f"{stem}.idx").open("wb"))
        yield _SideWriter(ids, offsets, id_type(tokenizer.vocabulary_size))


def _chunks(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    iterator = iter(pairs)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk
