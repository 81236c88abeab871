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
    """The chosen sentences (by index), longest first, at most `tokens` tokens per batch, with padding."""
    if tokens == 1:
        return [[index] for index in sorted(chosen)]
    result: list[list[int]] = []
    longest = 0
    for index in sorted(chosen, key=lambda index: -len(sentences[index])):
        if not result or (len(result[-1]) + 1) * longest > tokens:
            result.append([])
            longest = len(sentences[index]) + 1
        result[-1].append(index)
    return result
