"""A token that position n does not see never changes the output at n, at any depth; proved in float64.

And the test itself is proved: on a decoder with contextual keys and values it fails, by the paper's cycle.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from disco_mt import context
from disco_mt.keyed import sentence_keys
from disco_mt.models.base import TranslationModel
from disco_mt.models.build import build_model
from disco_mt.models.encoder import Encoded
from disco_mt.special import EOS, NUM_SPECIAL
from tiny import VOCABULARY, lively, padded, random_sources, tiny_config

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


@given(st.integers(0, 10_000), st.integers(1, 8), st.sampled_from(["post", "pre"]), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_what_is_not_seen_has_no_influence(seed: int, length: int, norm: str, layers: int) -> None:
    from disco_mt.models.config import Stack

    model = lively(build_model(tiny_config(norm=norm, decoder=Stack(layers, 2, 32)), seed), seed)
    target = padded(random_sources([length], seed))
    with torch.no_grad():
        for name, visible in visibilities(target, seed).items():
            assert leaks(model, model.decode, target, visible) == [], name


def test_what_is_seen_has_influence() -> None:
    """The proof above would be empty if nothing had any influence."""
    model = lively(build_model(tiny_config()))
    target = padded(random_sources([3]))
    visible = context.all_but_itself(*context.words_and_eos(target))
    encoded = model.encode(padded(random_sources([4])))
    before = model.decode(target, visible, encoded)
    changed = target.clone()
    changed[0, 0] = NUM_SPECIAL + (target[0, 0] - NUM_SPECIAL + 1) % (VOCABULARY - NUM_SPECIAL)
    after = model.decode(changed, visible, encoded)
    assert (after != before).any(dim=2)[0].tolist() == [False, True, True, True]


def contextual_decode(model: TranslationModel) -> Decode:
    """The stacked decoder that the paper rejects: k, v = Proj(w + h) of the layer before."""

    def decode(tokens: Tensor, visible: Tensor, encoded: Encoded) -> Tensor:
        words = model.words(tokens)
        h = model.positions(tokens.shape[1]).expand_as(words)
        for layer, source in zip(model.decoder_layers, encoded.cross, strict=True):
            h = layer(h, layer.contextless_keys(words + h), visible, source, encoded.visible)
        return h

    return decode


def test_contextual_keys_leak_by_the_papers_cycle() -> None:
    """Y = [A, B], position 1 sees B and position 2 sees A: in layer 2, each sees itself."""
    model = lively(build_model(tiny_config()))
    target = torch.tensor([[5, 6, EOS]])
    visible = context.all_but_itself(*context.words_and_eos(target))
    with torch.no_grad():
        assert {(0, 0), (1, 1)} <= set(leaks(model, contextual_decode(model), target, visible))
        assert leaks(model, model.decode, target, visible) == []


@pytest.mark.parametrize("kind", ["disco", "cmlm"])
def test_padding_has_no_influence(kind: str) -> None:
    model = lively(build_model(tiny_config(kind=kind)))
    source, target = padded(random_sources([5])), padded(random_sources([4], seed=1))
    visible = context.all_but_itself(*context.words_and_eos(target))
    wide = padded(random_sources([4], seed=1), extra=3)
    wide_visible = context.all_but_itself(*context.words_and_eos(wide))
    with torch.no_grad():
        narrow_out = model.decode(target, visible, model.encode(source))
        wide_source = padded(random_sources([5]), extra=4)
        wide_out = model.decode(wide, wide_visible, model.encode(wide_source))
    torch.testing.assert_close(wide_out[:, :5], narrow_out, rtol=0, atol=1e-12)
