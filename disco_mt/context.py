"""Visibility masks: the paper's Y_obs^n, which words each position may see.

Every function returns a mask of shape (batch, query, key), True = may attend. `words` marks the words of a
target, `eos` its one EOS; both are (batch, tgt), padding is neither. EOS is the anchor: visible to every
query and never predicted, so no row is empty and every position knows the length.
"""

from __future__ import annotations

import torch
from torch import Tensor

from disco_mt.core.counter_rng import integers, uniform
from disco_mt.core.special_tokens import EOS, PAD


def words_and_eos(target: Tensor) -> tuple[Tensor, Tensor]:
    """Masks of the words and of the EOS of each target. target: (batch, tgt)."""
    eos = target == EOS
    return (target != PAD) & ~eos, eos


def nothing(words: Tensor, eos: Tensor) -> Tensor:
    """The first pass, P(Y_n | X): only EOS."""
    return observed_set(torch.zeros_like(words), eos)


def observed_set(observed: Tensor, eos: Tensor) -> Tensor:
    """Every query sees the same words, mask-predict's Y_obs. observed: (batch, tgt)."""
    return (observed | eos)[:, None, :].expand(-1, observed.shape[1], -1)


def by_order(order: Tensor, words: Tensor, eos: Tensor) -> Tensor:
    """Position n sees the words of lower rank: Y_obs^n = {Y_i | z(i) < z(n)}. order: (batch, tgt) ranks."""
    earlier = order[:, None, :] < order[:, :, None]
    return (earlier & words[:, None, :]) | eos[:, None, :]


def easy_first_order(log_probs: Tensor, words: Tensor) -> Tensor:
    """Rank of each position by descending probability; ties: the earlier position first. (batch, tgt)."""
    return ranks(-log_probs, among=words)


def left_to_right(words: Tensor, eos: Tensor) -> Tensor:
    """Y_obs^n = Y_{<n}: the autoregressive objective."""
    return by_order(_positions(words), words, eos)


def right_to_left(words: Tensor, eos: Tensor) -> Tensor:
    """Y_obs^n = Y_{>n}."""
    return by_order(-_positions(words), words, eos)


def all_but_itself(words: Tensor, eos: Tensor) -> Tensor:
    """Y_obs^n = Y_{!=n}: the cloze objective, and the decoder that the paper warns against."""
    itself = torch.eye(words.shape[1], dtype=torch.bool, device=words.device)
    return (words[:, None, :] & ~itself) | eos[:, None, :]


def permutation(keys: Tensor, words: Tensor, eos: Tensor) -> Tensor:
    """XLNet's objective: one random order per sentence. keys: (batch,) from `sentence_keys`."""
    return by_order(ranks(integers(keys, words.shape[1]), among=words), words, eos)


def random(keys: Tensor, words: Tensor, eos: Tensor) -> Tensor:
    """The DisCo objective: for each position a uniform number of the other words, uniformly chosen.

    keys: (batch,) from `sentence_keys`. Each position draws its own number from 0..N-1.
    """
    size = words.shape[1]
    row_keys = integers(keys, size)  # (batch, query): one stream per position
    draws = integers(row_keys, size + 1)[..., 1:]  # (batch, query, key); the first draw is for the number
    itself = torch.eye(size, dtype=torch.bool, device=words.device)
    others = words[:, None, :] & ~itself
    number = (uniform(row_keys, 1) * words.sum(1)[:, None, None]).long()  # (batch, query, 1) in 0..N-1
    return (others & (ranks(draws, among=others) < number)) | eos[:, None, :]


def prefix(keys: Tensor, words: Tensor, eos: Tensor) -> Tensor:
    """The context in drafting after an accepted prefix: the words of the prefix, and random ones after it.

    For each position n the prefix has a uniform number of words, 0..n, and of the words after it (except n) a
    uniform number is visible, uniformly chosen. keys: (batch,) from `sentence_keys`.
    """
    size = words.shape[1]
    row_keys = integers(keys, size)  # (batch, query): one stream per position
    draws = integers(row_keys, size + 2)[..., 2:]  # (batch, query, key); the first two are for the numbers
    numbers = uniform(row_keys, 2)  # (batch, query, 2)
    places = torch.arange(size, device=words.device)
    length = (numbers[..., 0] * (places + 1)).long()[..., None]  # (batch, query, 1) in 0..n
    before = words[:, None, :] & (places < length)
    itself = torch.eye(size, dtype=torch.bool, device=words.device)
    behind = words[:, None, :] & (places >= length) & ~itself
    number = (numbers[..., 1:] * (behind.sum(dim=-1, keepdim=True) + 1)).long()
    return before | (behind & (ranks(draws, among=behind) < number)) | eos[:, None, :]


def ranks(values: Tensor, among: Tensor) -> Tensor:
    """Distinct ranks from 0 by ascending value along the last axis; ties: the earlier position first.

    Positions outside `among` (same shape) come last.
    """
    behind = torch.inf if values.is_floating_point() else torch.iinfo(values.dtype).max
    places = values.masked_fill(~among, behind).argsort(dim=-1, stable=True)
    counting = torch.arange(values.shape[-1], device=values.device).expand_as(places)
    return torch.empty_like(places).scatter_(-1, places, counting)


def _positions(words: Tensor) -> Tensor:
    return torch.arange(words.shape[1], device=words.device).expand_as(words)
