"""More sources for a teacher to translate: the beginning of one sentence and the end of another.

A model that predicts all words at once needs more examples than a small corpus has, and a teacher translates
anything. Where two sentences have the same three tokens, one can go on as the other: "A man in a [blue shirt
is] asleep." and "The boy with a [blue shirt is] waving." give "A man in a blue shirt is waving."
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from disco_mt.data.dataset import Side

SHARED = 3  # tokens at the seam: with two, many sentences make no sense
_BITS = 64 // SHARED  # of a token's id in the key of a seam; ids are below 2^21
_DRAWS = 20  # seams looked at for each sentence that is wanted
_SEED = 1


def with_spliced(source: Side, share: float, held_out: Callable[[list[int]], bool]) -> Side:
    """These sentences, and at most `share` times as many new ones, all different and none held out."""
    wanted = round(share * len(source.lengths))
    if not wanted:
        return source
    new = _new_sentences(source, wanted, held_out)
    sizes = [len(sentence) for sentence in new]
    offsets = np.concatenate([source.offsets, source.offsets[-1] + np.cumsum(sizes, dtype=np.int64)])
    return Side(np.concatenate([source.ids, *new]), offsets)


def _new_sentences(source: Side, wanted: int, held_out: Callable[[list[int]], bool]) -> list[NDArray[Any]]:
    """None of them is in the corpus or held out, or longer than its longest."""
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
    return found


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
