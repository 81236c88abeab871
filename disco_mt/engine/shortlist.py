"""A vocabulary shortlist: for each source token the target tokens that co-occur with it in training data.

Pairs of tokens are ranked by the Dice coefficient of how often they are in the same sentence pair. Frequent
target tokens are on every list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_file, write_text
from disco_mt.core.special_tokens import NUM_SPECIAL

Pair = tuple[NDArray[np.integer], NDArray[np.integer]]
_CHUNK = 4096  # sentence pairs that are counted at a time


@dataclass(frozen=True)
class Shortlist:
    """Target ids by source id, without special tokens."""

    partners: Tensor  # (source vocabulary, entries) target ids, padded with -1
    common: Tensor  # (n,) target ids on every list

    def words(self, sentence: Sequence[int]) -> Tensor:
        """The target ids of a sentence, ascending."""
        partners = self.partners[torch.tensor(sentence, dtype=torch.long)].flatten()
        words: Tensor = torch.cat([self.common, partners[partners >= NUM_SPECIAL]]).unique()  # type: ignore[no-untyped-call]
        return words

    @staticmethod
    def load(path: Path) -> Shortlist:
        try:
            tensors = load_file(path)
            return Shortlist(tensors["partners"], tensors["common"])
        except (OSError, SafetensorError, KeyError) as error:
            raise UserError(f"{path} is not a shortlist: {error}; make one with: disco shortlist") from None

    def save(self, path: Path) -> None:
        with atomic_file(path) as temporary:
            save_file({"partners": self.partners, "common": self.common}, temporary)

    def save_vmap(self, path: Path, source: list[str], target: list[str]) -> None:
        """Write the lists in CTranslate2's format: vmap.txt in its model directory, for `use_vmap`."""
        lists = [("", self.common.tolist())]
        lists += [(source[token], row[row >= 0].tolist()) for token, row in enumerate(self.partners)]
        lines = (f"{token}\t{' '.join(target[word] for word in words)}" for token, words in lists if words)
        write_text(path, "".join(f"{line}\n" for line in lines))

    @staticmethod
    def count(pairs: Iterable[Pair], sizes: tuple[int, int], each: int, common: int) -> Shortlist:
        """Count sentence pairs (ids): `each` partners per source token, and `common` for all of them.

        sizes: of the source and the target vocabulary.
        """
        pair_counts, counts = _counts(pairs, sizes)
        keys = np.fromiter(pair_counts.keys(), np.int64, len(pair_counts))
        number = np.fromiter(pair_counts.values(), np.int64, len(pair_counts))
        source, target = keys // sizes[1], keys % sizes[1]
        dice = 2 * number / (counts[0][source] + counts[1][target])
        order = np.lexsort((target, -dice, source))  # by source, then by descending Dice coefficient
        source, target = source[order], target[order]
        first = np.searchsorted(source, source)  # where the partners of each source token begin
        rank = np.arange(len(source)) - first
        kept = rank < each
        partners = np.full((sizes[0], each), -1, np.int64)
        partners[source[kept], rank[kept]] = target[kept]
        frequent = NUM_SPECIAL + np.argsort(-counts[1][NUM_SPECIAL:], kind="stable")[:common]
        return Shortlist(torch.from_numpy(partners), torch.from_numpy(np.sort(frequent)))


def _counts(
    pairs: Iterable[Pair], sizes: tuple[int, int]
) -> tuple[dict[int, int], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """In how many sentence pairs two tokens occur together (by source * size + target), and each of them."""
    pair_counts: dict[int, int] = {}
    counts = np.zeros(sizes[0], np.int64), np.zeros(sizes[1], np.int64)
    waiting: list[NDArray[np.int64]] = []
    for sentence in pairs:
        source, target = (np.unique(side[side >= NUM_SPECIAL]).astype(np.int64) for side in sentence)
        counts[0][source] += 1
        counts[1][target] += 1
        waiting.append((source[:, None] * sizes[1] + target).ravel())
        if len(waiting) >= _CHUNK:
            _add(pair_counts, waiting)
    _add(pair_counts, waiting)
    return pair_counts, counts


def _add(pair_counts: dict[int, int], waiting: list[NDArray[np.int64]]) -> None:
    if not waiting:
        return
    keys, number = np.unique(np.concatenate(waiting), return_counts=True)
    for key, count in zip(keys.tolist(), number.tolist(), strict=True):
        pair_counts[key] = pair_counts.get(key, 0) + count
    waiting.clear()
