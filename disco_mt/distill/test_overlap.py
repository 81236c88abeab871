"""Sentences of valid and test, which must not become training sources."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from disco_mt.data.dataset import Dataset
from disco_mt.text.lines import letters


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
