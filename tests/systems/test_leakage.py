"""A token that position n does not see never changes the output at n, at any depth; proved in float64.

And the test itself is proved: on a decoder with contextual keys and values it fails, by the paper's cycle.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from disco_mt import context
from disco_mt.core.special_tokens import BOS, EOS, NUM_SPECIAL
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import Stack
from disco_mt.nn.encoder import Encoded
from disco_mt.nn.layers import KeyValue
from disco_mt.systems.build import build_model
from disco_mt.systems.disco.model import DisCo
from leakage import Decode, leaks, visibilities
from tiny import MARIAN, POOLED, VOCABULARY, lively, padded, random_sources, tiny_config

OPTIONS = st.fixed_dictionaries(
    {
        "norm": st.sampled_from(["post", "pre"]),
        "activation": st.sampled_from(["gelu", "silu"]),
        "positions": st.sampled_from(["learned", "marian"]),
        **{name: st.booleans() for name in ("start_token", "query_word", "scale_embeddings", "output_bias")},
    }
)


@given(st.integers(0, 10_000), st.integers(1, 8), OPTIONS, st.integers(1, 4))
@settings(max_examples=80, deadline=None)
def test_what_is_not_seen_has_no_influence(
    seed: int, length: int, options: dict[str, object], layers: int
) -> None:
    model = lively(build_model(tiny_config(decoder=Stack(layers, 2, 32), **options), seed), seed)
    target = padded(random_sources([length], seed))
    with torch.no_grad():
        for name, visible in visibilities(target, seed).items():
            assert leaks(model, model.decode, target, visible) == [], name


@pytest.mark.parametrize("options", [{}, MARIAN], ids=["default", "converted"])
def test_what_is_seen_has_influence(options: dict[str, object]) -> None:
    """The proof above would be empty if nothing had any influence."""
    model = lively(build_model(tiny_config(**options)))
    target = padded(random_sources([3]))
    visible = context.all_but_itself(*context.words_and_eos(target))
    encoded = model.encode(padded(random_sources([4])))
    before = model.decode(target, visible, encoded)
    changed = target.clone()
    changed[0, 0] = NUM_SPECIAL + (target[0, 0] - NUM_SPECIAL + 1) % (VOCABULARY - NUM_SPECIAL)
    after = model.decode(changed, visible, encoded)
    assert (after != before).any(dim=2)[0].tolist() == [False, True, True, True]


class Seen(NamedTuple):
    """What a decoder layer was given."""

    queries: Tensor  # (batch, tgt, width)
    keys: KeyValue
    visible: Tensor  # (batch, tgt, keys)


def first_layer(model: TranslationModel, target: Tensor, visible: Tensor) -> Seen:
    """What reaches the first layer of a decoder."""
    found: list[Seen] = []
    layer = model.decoder_layers[0]
    handle = layer.register_forward_pre_hook(lambda _, given: found.append(Seen(*given[:3])))
    model.decode(target, visible, model.encode(padded(random_sources([4]))))
    handle.remove()
    return found[0]


def keys_of(model: TranslationModel, *words_at: tuple[int, int]) -> KeyValue:
    """The first layer's keys and values of words, each at a position: from their two vectors alone."""
    words, places = (torch.tensor(each) for each in zip(*words_at, strict=True))
    scale = model.config.width**0.5 if model.config.scale_embeddings else 1.0
    vectors = scale * model.words.weight[words] + model.positions.weight[places]
    return model.decoder_layers[0].self_attention.project(vectors[None])


@torch.no_grad()
def test_without_a_start_token_the_key_of_word_n_has_position_n() -> None:
    model, target = lively(build_model(tiny_config())), torch.tensor([[5, 6, 7, EOS]])
    seen = first_layer(model, target, context.nothing(*context.words_and_eos(target)))
    torch.testing.assert_close(seen.keys, keys_of(model, (5, 0), (6, 1), (7, 2), (EOS, 3)))
    torch.testing.assert_close(seen.queries[0], model.positions.weight[:4])
    assert seen.visible.int().tolist() == [[[0, 0, 0, 1]] * 4]


@torch.no_grad()
@pytest.mark.parametrize("scale_embeddings", [False, True])
def test_a_start_token_comes_first_and_words_one_position_later(scale_embeddings: bool) -> None:
    """The key of word n carries position n + 1, EOS of N words N + 1; everyone sees BOS and EOS."""
    config = tiny_config(start_token=True, scale_embeddings=scale_embeddings, positions="marian")
    model, target = lively(build_model(config)), torch.tensor([[5, 6, 7, EOS]])
    words_and_eos = context.words_and_eos(target)
    seen = first_layer(model, target, context.left_to_right(*words_and_eos))
    torch.testing.assert_close(seen.keys, keys_of(model, (BOS, 0), (5, 1), (6, 2), (7, 3), (EOS, 4)))
    torch.testing.assert_close(seen.queries[0], model.positions.weight[:4])  # queries keep their own
    assert seen.visible[0, :3].int().tolist() == [  # the row of EOS is not predicted
        [1, 0, 0, 0, 1],
        [1, 1, 0, 0, 1],
        [1, 1, 1, 0, 1],
    ]
    seen = first_layer(model, target, context.nothing(*words_and_eos))
    assert seen.visible.int().tolist() == [[[1, 0, 0, 0, 1]] * 4]
    seen = first_layer(model, target, context.all_but_itself(*words_and_eos))
    assert seen.visible[0, :3].int().tolist() == [
        [1, 0, 1, 1, 1],
        [1, 1, 0, 1, 1],
        [1, 1, 1, 0, 1],
    ]


@torch.no_grad()
def test_both_anchors_have_influence_on_every_word() -> None:
    model, target = lively(build_model(tiny_config(start_token=True))), padded(random_sources([3]))
    visible, encoded = context.nothing(*context.words_and_eos(target)), model.encode(target)
    before = model.decode(target, visible, encoded)
    for anchor in (BOS, EOS):
        kept = model.words.weight[anchor].clone()
        model.words.weight[anchor] += 1.0
        assert (model.decode(target, visible, encoded) != before).any(dim=2).all(), anchor
        model.words.weight[anchor] = kept


@torch.no_grad()
def test_a_query_word_is_added_to_every_position() -> None:
    model, target = lively(build_model(tiny_config(query_word=True))), padded(random_sources([3]))
    assert isinstance(model, DisCo)
    assert model.query_word is not None
    seen = first_layer(model, target, context.nothing(*context.words_and_eos(target)))
    torch.testing.assert_close(seen.queries[0], model.positions.weight[:4] + model.query_word)


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


@pytest.mark.parametrize(
    ("kind", "options"), [("disco", {}), ("cmlm", {}), ("disco", MARIAN), ("cmlm", {"length": POOLED})]
)
def test_padding_has_no_influence(kind: str, options: dict[str, object]) -> None:
    model = lively(build_model(tiny_config(kind=kind, **options)))
    source, target = padded(random_sources([5])), padded(random_sources([4], seed=1))
    visible = context.all_but_itself(*context.words_and_eos(target))
    wide = padded(random_sources([4], seed=1), extra=3)
    wide_visible = context.all_but_itself(*context.words_and_eos(wide))
    with torch.no_grad():
        narrow, broad = model.encode(source), model.encode(padded(random_sources([5]), extra=4))
        narrow_out, wide_out = model.decode(target, visible, narrow), model.decode(wide, wide_visible, broad)
    torch.testing.assert_close(narrow.length_log_probs, broad.length_log_probs, rtol=0, atol=1e-12)
    torch.testing.assert_close(wide_out[:, :5], narrow_out, rtol=0, atol=1e-12)
