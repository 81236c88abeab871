"""Sentence pairs -> the flat files of a split, in chunks; unsuitable pairs are dropped and counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from disco_mt.core.files import atomic_file
from disco_mt.core.progress import Advance
from disco_mt.data.dataset import Side, id_type
from disco_mt.data.parallel import ordered_map
from disco_mt.text.pair import TextPair
from disco_mt.text.tokenizer import Tokenizer

Item = TypeVar("Item")

CHUNK = 8192  # pairs encoded at a time
DROP_REASONS = ("empty", "too long", "lop-sided")
SHORT = 10  # tokens: below, the ratio of lengths is not checked ("Thanks." / "Ich bedanke mich.")


@dataclass(frozen=True)
class Limits:
    """Which training pairs are kept; lengths are in tokens, without EOS."""

    max_length: int = 250
    max_ratio: float = 3.0  # of the longer side to the shorter one


@dataclass(frozen=True)
class SplitReport:
    """The size of a split, and how many pairs were dropped for which reason."""

    pairs: int
    source_tokens: int
    target_tokens: int
    dropped: dict[str, int]


def write_split(
    stem: Path,
    pairs: Iterable[tuple[str, str]],
    text: TextPair,
    limits: Limits | None,
    advance: Advance,
    jobs: int = 1,
) -> SplitReport:
    """Write `stem`.source.bin, .source.idx, .target.bin and .target.idx. limits: None keeps all pairs."""
    dropped = np.zeros(1 + len(DROP_REASONS), dtype=np.int64)
    with _side_writer(f"{stem}.source") as source, _side_writer(f"{stem}.target") as target:
        for chunk in ordered_map(_Encoder(text, limits), chunks(pairs), jobs):
            source.append(chunk.source)
            target.append(chunk.target)
            dropped += chunk.reasons
            advance(int(chunk.reasons.sum()))
    counts = dict(zip(DROP_REASONS, map(int, dropped[1:]), strict=True)) if limits else {}
    return SplitReport(int(dropped[0]), source.tokens, target.tokens, counts)


def chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    """The items in chunks that are large enough to be worth sending to another process."""
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk


@dataclass(frozen=True)
class _Sentences:
    """The sentences of one side of a chunk that are kept."""

    ids: NDArray[Any]  # (tokens,) concatenated
    lengths: NDArray[np.int64]  # (sentences,)


@dataclass(frozen=True)
class _Chunk:
    source: _Sentences
    target: _Sentences
    reasons: NDArray[np.int64]  # number of pairs kept, and dropped for each of DROP_REASONS


@dataclass(frozen=True)
class _Encoder:
    """Encodes one chunk, in whichever process."""

    text: TextPair
    limits: Limits | None

    def __call__(self, pairs: list[tuple[str, str]]) -> _Chunk:
        source = self.text.source.encode_batch([pair[0] for pair in pairs])
        target = self.text.target.encode_batch([pair[1] for pair in pairs])
        reasons = _reasons(source, target, self.limits)
        return _Chunk(
            _kept(source, reasons == 0, self.text.source),
            _kept(target, reasons == 0, self.text.target),
            np.bincount(reasons, minlength=1 + len(DROP_REASONS)),
        )


def _kept(sentences: list[list[int]], keep: NDArray[np.bool_], tokenizer: Tokenizer) -> _Sentences:
    kept = [ids for ids, good in zip(sentences, keep, strict=True) if good]
    flat = np.fromiter(chain.from_iterable(kept), dtype=id_type(tokenizer.vocabulary_size))
    return _Sentences(flat, np.array([len(ids) for ids in kept], dtype=np.int64))


def write_side(stem: Path, side: Side, which: NDArray[np.int64], tokenizer: Tokenizer) -> dict[str, Any]:
    """Write `stem`.bin and `stem`.idx with these sentences, in this order; returns their description."""
    dtype = id_type(tokenizer.vocabulary_size)
    offsets = np.concatenate([[0], np.cumsum(side.lengths[which], dtype="<i8")])
    with atomic_file(stem.with_name(f"{stem.name}.idx")) as temporary:
        offsets.tofile(temporary)
    with atomic_file(stem.with_name(f"{stem.name}.bin")) as temporary, temporary.open("wb") as stream:
        for start in range(0, len(which), CHUNK):
            ids = np.concatenate([side[index] for index in which[start : start + CHUNK]])
            stream.write(ids.astype(dtype).tobytes())
            side.release()
    return {"tokens": int(offsets[-1]), "type": dtype.str}


def _reasons(source: list[list[int]], target: list[list[int]], limits: Limits | None) -> NDArray[np.int64]:
    """For each pair 0 (kept), or 1 + the index of the first of DROP_REASONS that applies."""
    if limits is None:
        return np.zeros(len(source), dtype=np.int64)
    lengths = [np.fromiter(map(len, side), np.int64, len(side)) for side in (source, target)]
    return reasons_to_drop(lengths[0], lengths[1], limits)


def reasons_to_drop(
    source: NDArray[np.integer[Any]], target: NDArray[np.integer[Any]], limits: Limits
) -> NDArray[np.int64]:
    """The same as `_reasons`, from the lengths of both sides, (pairs,) each."""
    shorter, longer = np.minimum(source, target), np.maximum(source, target)
    too_long = longer > limits.max_length
    lop_sided = (longer > SHORT) & (longer > limits.max_ratio * shorter)
    return np.select([shorter == 0, too_long, lop_sided], [1, 2, 3], default=0)


class _SideWriter:
    """Appends sentences to a file of ids and one of offsets."""

    def __init__(self, ids: BinaryIO, offsets: BinaryIO) -> None:
        self.tokens = 0
        self._ids, self._offsets = ids, offsets
        self._offsets.write(np.zeros(1, dtype="<i8").tobytes())

    def append(self, sentences: _Sentences) -> None:
        ends = self.tokens + np.cumsum(sentences.lengths, dtype="<i8")
        self._offsets.write(ends.tobytes())
        self._ids.write(sentences.ids.tobytes())
        self.tokens += len(sentences.ids)


@contextmanager
def _side_writer(stem: str) -> Iterator[_SideWriter]:
    with ExitStack() as stack:
        ids = stack.enter_context(Path(f"{stem}.bin").open("wb"))
        offsets = stack.enter_context(Path(f"{stem}.idx").open("wb"))
        yield _SideWriter(ids, offsets)
