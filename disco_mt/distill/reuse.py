"""Translations to reuse: those of datasets that the same teacher has distilled in the same way.

A larger set of sources often contains a smaller one, and the teacher would translate it the same way again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from disco_mt.core.errors import UserError
from disco_mt.data.dataset import Dataset, Ids, Side, read_description
from disco_mt.distill.shards import PROVENANCE

Words = tuple[int, ...]
Source = list[int]


class Reusable:
    """Sources with their translations."""

    def __init__(self, directories: Sequence[Path], settings: dict[str, Any], text: dict[str, Any]) -> None:
        """settings: those of the distillation at hand; text: the vocabularies in its dataset.json."""
        self._places: dict[bytes, tuple[int, int]] = {}  # source -> which dataset, which pair
        self._targets: list[Side] = []
        for directory in directories:
            _refuse_others(directory, settings, text)
            train = Dataset.open(directory).splits["train"]
            for index in range(len(train)):
                self._places[_key(train.source[index])] = len(self._targets), index
            self._targets.append(train.target)

    def missing(self, sentences: Sequence[Source]) -> list[Source]:
        """Those that have no translation yet, in their order."""
        return [sentence for sentence in sentences if _key(sentence) not in self._places]

    def filled(self, sentences: Sequence[Source], new: Sequence[Words]) -> list[Words]:
        """The translations of all; new: of those that were missing."""
        rest = iter(new)
        return [next(rest) if each is None else each for each in map(self._translation, sentences)]

    def _translation(self, sentence: Source) -> Words | None:
        place = self._places.get(_key(sentence))
        return None if place is None else tuple(self._targets[place[0]][place[1]].tolist())


def _key(ids: Sequence[int] | Ids) -> bytes:
    """Small, for there may be millions, and the same for ids of every type."""
    return np.asarray(ids, dtype="<u4").tobytes()


def _refuse_others(directory: Path, settings: dict[str, Any], text: dict[str, Any]) -> None:
    """Another teacher or another search would have given other translations."""
    stored = read_description(directory, PROVENANCE, "a dataset made by `disco distill`").get("settings")
    if not isinstance(stored, dict):
        raise UserError(f"{directory / PROVENANCE} has no settings; is it a dataset made by `disco distill`?")
    same = {key: stored.get(key) == settings[key] for key in ("teacher", "decoding")}
    same["vocabulary"] = (
        read_description(directory, "dataset.json", "a dataset directory").get("text") == text
    )
    different = [key for key, equal in same.items() if not equal]
    if different:
        raise UserError(
            f"the translations in {directory} are not what this teacher would say now: another "
            f"{' and '.join(different)}; leave out --reuse, or name a dataset that was distilled in this way"
        )
