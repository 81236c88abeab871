"""Sentences as padded batches of source ids."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from disco_mt.core.special_tokens import EOS, PAD


def with_eos(sentences: Sequence[Sequence[int]]) -> Tensor:
    """Ids without EOS -> (sentences, longest + 1) with EOS at the end of each, then padding."""
    width = max(map(len, sentences)) + 1
    return torch.tensor([[*ids, EOS, *[PAD] * (width - 1 - len(ids))] for ids in sentences])


def batches(sentences: Sequence[Sequence[int]], chosen: Sequence[int], tokens: int) -> list[list[int]]:
    """The chosen sentences (by index), longest first, at most `tokens` padded tokens together."""
    if tokens == 1:
        return [[index] for index in sorted(chosen)]
    found: list[list[int]] = []
    widest = 0
    for index in sorted(chosen, key=lambda index: -len(sentences[index])):
        if not found or (len(found[-1]) + 1) * widest > tokens:
            found.append([])
            widest = len(sentences[index]) + 1
        found[-1].append(index)
    return found
