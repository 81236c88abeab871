"""Does a decoder let a word influence a position that does not see it? And all ways to see."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.core.counter_rng import sentence_keys
from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.encoder import Encoded
from tiny import VOCABULARY, padded, random_sources

Decode = Callable[[Tensor, Tensor, Encoded], Tensor]


def leaks(model: TranslationModel, decode: Decode, target: Tensor, visible: Tensor) -> list[tuple[int, int]]:
    """Pairs (n, m) such that changing token m, which n does not see, changed the output at n."""
    encoded = model.encode(padded(random_sources([4])))
    before = decode(target, visible, encoded)
    found = []
    for m in range(target.shape[1] - 1):
        changed = target.clone()
        changed[0, m] = NUM_SPECIAL + (changed[0, m] - NUM_SPECIAL + 1) % (VOCABULARY - NUM_SPECIAL)
        after = decode(changed, visible, encoded)
        differs = (after != before).any(dim=2)[0]
        found += [(n, m) for n in range(target.shape[1]) if differs[n] and not visible[0, n, m]]
    return found


def visibilities(target: Tensor, key: int) -> dict[str, Tensor]:
    words, eos = context.words_and_eos(target)
    keys = sentence_keys(key, torch.zeros(1, dtype=torch.long))
    draws = torch.randn(target.shape, generator=torch.Generator().manual_seed(key))
    return {
        "random": context.random(keys, words, eos),
        "permutation": context.permutation(keys, words, eos),
        "all but itself": context.all_but_itself(words, eos),
        "left to right": context.left_to_right(words, eos),
        "right to left": context.right_to_left(words, eos),
        "easy first": context.by_order(context.easy_first_order(draws, words), words, eos),
        "nothing": context.nothing(words, eos),
    }
