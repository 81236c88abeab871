"""A batch of sentence pairs as tensors: made by data/, read by the objectives (systems/*/objectives.py)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from disco_mt.core.special_tokens import EOS, PAD


@dataclass(frozen=True)
class Batch:
    """Sentence pairs, padded on the right. Both sides end in EOS and neither has a BOS."""

    sentence: Tensor  # (batch,) int64: index of each pair in its corpus, the key of its randomness
    source: Tensor  # (batch, src) int64
    target: Tensor  # (batch, tgt) int64
    memory: Tensor | None = None  # (batch, src, width): output of a frozen encoder, if stored

    def to(self, device: str) -> Batch:
        memory = None if self.memory is None else self.memory.to(device)
        return Batch(self.sentence.to(device), self.source.to(device), self.target.to(device), memory)

    @property
    def target_words(self) -> int:
        """Without EOS and padding."""
        return int(((self.target != PAD) & (self.target != EOS)).sum())
