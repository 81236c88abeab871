"""The sentences being decoded: the current words of every candidate, with their keys and values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from disco_mt.engine.runtime import Rows, Source


@dataclass(frozen=True)
class State:
    """S sentences with K candidates each; tgt is the length of the longest candidate with its EOS."""

    places: Tensor  # (S,) index in the caller's list
    steps: Tensor  # (S,) passes done
    lengths: Tensor  # (S, K) words
    words: Tensor  # (S, K, tgt) bool
    eos: Tensor  # (S, K, tgt) bool
    tokens: Tensor  # (S, K, tgt)
    log_probs: Tensor  # (S, K, tgt)
    visible: Tensor  # (S, K, tgt, tgt) bool, False in rows without a word
    changed: Tensor  # (S, K, tgt) bool: differs from the pass before
    keys: Tensor  # (2 * layers, S * K, heads, start + tgt, size), outdated where `changed`
    source: Source
    rows: Tensor  # (S,) decoder rows computed
    projected: Tensor  # (S,) tokens whose keys were projected
    start: int = 0  # 1 if the first key is the start token's, else 0
    length_penalty: float = 1.0
    entries: Tensor | None = None  # vocabulary ids to choose from, if S is 1 (shortlist.py)

    @property
    def beam(self) -> int:
        """K."""
        return self.lengths.shape[1]

    def scores(self) -> Tensor:
        """Log probability of each candidate, divided by N^alpha. (S, K)."""
        number = self.lengths.to(self.log_probs.dtype)
        return (self.log_probs * self.words).sum(dim=2) / number**self.length_penalty

    def rows_at(self, chosen: tuple[Tensor, ...]) -> Rows:
        """chosen: indices of positions: sentence, candidate, place."""
        sentences, candidates, places = chosen
        return Rows(places, sentences * self.beam + candidates, sentences)

    def anchors(self) -> Tensor:
        """Keys and values of each candidate's EOS. (2 * layers, S * K, width)."""
        return self._ends().flatten(2)

    def two_anchors(self) -> Tensor:
        """Keys and values of the start token and of EOS. (2 * layers, S * K, heads, 2, size)."""
        return torch.stack([self.keys[:, :, :, 0], self._ends()], dim=3)

    def _ends(self) -> Tensor:
        """Keys and values of each candidate's EOS. (2 * layers, S * K, heads, size)."""
        candidates, places = self.eos.flatten(0, 1).nonzero(as_tuple=True)
        return self.keys[:, candidates, :, places + self.start].movedim(1, 0)

    def seen(self, visible: Tensor) -> Tensor:
        """Visibility by key slot: every row sees the start token. (rows, tgt) bool."""
        return F.pad(visible, (1, 0), value=True) if self.start else visible

    def copied(self, times: int) -> State:
        """Every sentence's candidates repeated as whole sets; `visible` is not repeated."""
        if times == 1:
            return self
        names = ("lengths", *_BY_PLACE)
        copies: dict[str, Any] = {name: torch.cat([getattr(self, name)] * times, dim=1) for name in names}
        keys = self.keys.view(len(self.keys), *self.lengths.shape, *self.keys.shape[2:])
        return replace(self, **copies, keys=torch.cat([keys] * times, dim=2).flatten(1, 2))

    def keep(self, chosen: Tensor) -> State:
        """The chosen sentences (mask), cut to their longest candidate."""
        width = int(self.lengths[chosen].max()) + 1
        kept: dict[str, Any] = {name: getattr(self, name)[chosen] for name in _BY_SENTENCE}
        kept |= {name: getattr(self, name)[chosen, :, :width] for name in _BY_PLACE}
        visible = self.visible[chosen, :, :width, :width]
        slots = width + self.start
        keys = self.keys[:, chosen.repeat_interleave(self.beam), :, :slots].contiguous()
        return replace(self, **kept, visible=visible, keys=keys, source=self.source.keep(chosen))

    def join(self, other: State) -> State:
        """The sentences of both, padded to the same width."""
        width = max(self.words.shape[2], other.words.shape[2])
        first = self._padded(width)
        second = other._padded(width)
        joined: dict[str, Any] = {
            name: torch.cat([getattr(first, name), getattr(second, name)])
            for name in (*_BY_SENTENCE, *_BY_PLACE, "visible")
        }
        keys = torch.cat([first.keys, second.keys], dim=1)
        return replace(self, **joined, keys=keys, source=first.source.join(second.source))

    def _padded(self, width: int) -> State:
        padding = width - self.words.shape[2]
        padded: dict[str, Any] = {name: F.pad(getattr(self, name), (0, padding)) for name in _BY_PLACE}
        visible = F.pad(self.visible, (0, padding, 0, padding))
        return replace(self, **padded, visible=visible, keys=F.pad(self.keys, (0, 0, 0, padding)))


_BY_SENTENCE = ("places", "steps", "lengths", "rows", "projected")
_BY_PLACE = ("words", "eos", "tokens", "log_probs", "changed")
