"""A vocabulary shortlist: for each source token the target tokens that went with it in training data.

Built by counting: how often two tokens are in the same sentence pair, against how often each is anywhere
(Dice). Frequent target tokens are on every list.
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
_AT_ONCE = 4096  # sentence pairs that are counted at a time


@dataclass(frozen=True)
class Shortlist:
    """Target ids by source id; words only, no special token."""

    partners: Tensor  # (source vocabulary, each) target ids, -1 where there are fewer
    common: Tensor  # (n,) on every list

    def words(self, sentence: Sequence[int]) -> Tensor:
        """The target ids of a sentence, rising."""
        theirs = self.partners[torch.tensor(sentence, dtype=torch.long)].flatten()
        chosen: Tensor = torch.cat([self.common, theirs[theirs >= NUM_SPECIAL]]).unique()  # type: ignore[no-untyped-call]
        return chosen

    @staticmethod
    def load(path: Path) -> Shortlist:
        """Read what `save` wrote."""
        try:
            tensors = load_file(path)
            return Shortlist(tensors["partners"], tensors["common"])
        except (OSError, SafetensorError, KeyError) as error:
            raise UserError(f"{path} is not a shortlist: {error}; make one with: disco shortlist") from None

    def save(self, path: Path) -> None:
        """Write a file, atomically."""
        with atomic_file(path) as temporary:
            save_file({"partners": self.partners, "common": self.common}, temporary)

    def save_vmap(self, path: Path, source: list[str], target: list[str]) -> None:
        """The same lists as CTranslate2 reads them: vmap.txt beside its model, and `use_vmap`."""
        lists = [("", self.common.tolist())]
        lists += [(source[token], row[row >= 0].tolist()) for token, row in enumerate(self.partners)]
        lines = (f"{token}\t{' '.join(target[word] for word in words)}" for token, words in lists if words)
        write_text(path, "".join(f"{line}\n" for line in lines))

    @staticmethod
    def count(pairs: Iterable[Pair], sizes: tuple[int, int], each: int, common: int) -> Shortlist:
        """From sentence pairs (ids); sizes of the vocabularies; `each` partners a token, `common` for all."""
        together, alone = _counts(pairs, sizes)
        keys = np.fromiter(together.keys(), np.int64, len(together))
        number = np.fromiter(together.values(), np.int64, len(together))
        source, target = keys // sizes[1], keys % sizes[1]
        dice = 2 * number / (alone[0][source] + alone[1][target])
        order = np.lexsort((target, -dice, source))  # by source, then by rising distance
        source, target = source[order], target[order]
        first = np.searchsorted(source, source)  # where each source token's partners begin
        rank = np.arange(len(source)) - first
        kept = rank < each
        partners = np.full((sizes[0], each), -1, np.int64)
        partners[source[kept], rank[kept]] = target[kept]
        frequent = NUM_SPECIAL + np.argsort(-alone[1][NUM_SPECIAL:], kind="stable")[:common]
        return Shortlist(torch.from_numpy(partners), torch.from_numpy(np.sort(frequent)))


def _counts(
    pairs: Iterable[Pair], sizes: tuple[int, int]
) -> tuple[dict[int, int], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """In how many sentence pairs two tokens are together (source * size + target), and each alone."""
    together: dict[int, int] = {}
    alone = np.zeros(sizes[0], np.int64), np.zeros(sizes[1], np.int64)
    waiting: list[NDArray[np.int64]] = []
    for sentence in pairs:
        source, target = (np.unique(side[side >= NUM_SPECIAL]).astype(np.int64) for side in sentence)
        alone[0][source] += 1
        alone[1][target] += 1
        waiting.append((source[:, None] * sizes[1] + target).ravel())
        if len(waiting) >= _AT_ONCE:
            _add(together, waiting)
    _add(together, waiting)
    return together, alone


def _add(together: dict[int, int], waiting: list[NDArray[np.int64]]) -> None:
    if not waiting:
        return
    keys, number = np.unique(np.concatenate(waiting), return_counts=True)
    for key, count in zip(keys.tolist(), number.tolist(), strict=True):
        together[key] = together.get(key, 0) + count
    waiting.clear()
