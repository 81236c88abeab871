"""A DisCo model's weights as fast runtimes want them: products without transposition, what can be one is one.

A matrix is (in, out) and contiguous; queries come out scaled, ready for the softmax. Keys and values are
contextless, so those of all decoder layers come from one product; those of the source do, too.

They need no bias. That of the keys adds the same to all scores of a query, which the softmax undoes; that of
the values comes through any mixture as it is, and is part of the bias of the product after it.

The scale of word embeddings is part of their table, the learned vector of queries part of their positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from disco_mt.nn.config import ModelConfig
from disco_mt.nn.encoder import scaled
from disco_mt.nn.layers import Attention, DecoderLayer, EncoderLayer, FeedForward, LayerNorm, Residual
from disco_mt.nn.length import PooledLength
from disco_mt.systems.disco.model import DisCo


class Linear(NamedTuple):
    """x @ weight + bias. weight: (in, out)."""

    weight: Tensor
    bias: Tensor


class Norm(NamedTuple):
    """LayerNorm's gain and shift, (width,) each, and what it adds to the variance."""

    weight: Tensor
    bias: Tensor
    epsilon: float


class AttentionWeights(NamedTuple):
    """One attention block and its frame's LayerNorm. `query` of an encoder makes keys and values, too."""

    query: Linear
    out: Linear
    norm: Norm


class FeedForwardWeights(NamedTuple):
    """One feed-forward block and the LayerNorm of its frame."""

    up: Linear
    down: Linear
    norm: Norm


class EncoderLayerWeights(NamedTuple):
    """One encoder layer; queries, keys and values are one product."""

    attention: AttentionWeights
    feed_forward: FeedForwardWeights


class DecoderLayerWeights(NamedTuple):
    """One decoder layer, keys and values apart."""

    attention: AttentionWeights
    cross: AttentionWeights
    feed_forward: FeedForwardWeights


@dataclass(frozen=True)
class PackedDisCo:
    """All weights of a DisCo model."""

    config: ModelConfig
    source_words: Tensor  # (vocabulary, width), at the scale of the embeddings
    source_positions: Tensor  # (longest, width)
    lengths: Tensor | None  # (classes, width); row 0 is the slot in front of the source
    pooled: PooledLength | None  # what predicts the length where there is no slot
    encoder: tuple[EncoderLayerWeights, ...]
    encoder_norm: Norm | None  # of pre-norm stacks
    source_keys: Tensor  # (width, 2 * layers * width): keys and values of the source, layer by layer
    words: Tensor  # (vocabulary, width), at the scale of the embeddings
    key_positions: Tensor  # (longest, width), by the slot of a key: the start token's, if any, comes first
    query_positions: Tensor  # (longest, width), where the query of each position starts
    target_keys: Tensor  # (width, 2 * layers * width): contextless keys and values, layer by layer
    decoder: tuple[DecoderLayerWeights, ...]
    decoder_norm: Norm | None
    output: Tensor  # (width, vocabulary)
    output_bias: Tensor | None  # (vocabulary,)

    @property
    def layers(self) -> int:
        """Decoder layers."""
        return len(self.decoder)

    @property
    def slots(self) -> int:
        """Length slots in front of the source: 1 or 0."""
        return 0 if self.lengths is None else 1


@torch.no_grad()
def pack(model: DisCo) -> PackedDisCo:
    """Copies of a model's weights, in its own number format."""
    encoder, layers = model.encoder, model.decoder_layers
    words = scaled(model.words.weight.detach(), model.config)
    tied = encoder.words is model.words
    return PackedDisCo(
        config=model.config,
        source_words=words if tied else scaled(encoder.words.weight.detach(), model.config),
        source_positions=encoder.positions.weight.detach(),
        lengths=None if encoder.length is None else encoder.length.weight.detach(),
        pooled=model.length,
        encoder=tuple(_encoder_layer(layer) for layer in encoder.layers if isinstance(layer, EncoderLayer)),
        encoder_norm=_last_norm(encoder.norm),
        source_keys=_linear(*(layer.cross_attention.key_value for layer in layers)).weight,
        words=words,
        key_positions=model.positions.weight.detach(),
        query_positions=model.queries(len(model.positions.weight)).detach(),
        target_keys=_linear(*(layer.self_attention.key_value for layer in layers)).weight,
        decoder=tuple(_decoder_layer(layer) for layer in layers),
        decoder_norm=_last_norm(model.norm),
        output=model.output.weight.detach().T.contiguous(),
        output_bias=None if model.output_bias is None else model.output_bias.detach(),
    )


def _linear(*parts: nn.Linear) -> Linear:
    """One product of several."""
    weight = torch.cat([part.weight.detach() for part in parts])
    return Linear(weight.T.contiguous(), torch.cat([part.bias.detach() for part in parts]))


def _norm(norm: LayerNorm) -> Norm:
    return Norm(norm.weight.detach(), norm.bias.detach(), norm.eps)


def _last_norm(norm: nn.Module) -> Norm | None:
    return _norm(norm) if isinstance(norm, LayerNorm) else None


def _attention(block: Attention, frame: Residual) -> AttentionWeights:
    out, (_, of_values) = _linear(block.out), block.key_value.bias.detach().chunk(2)
    out = Linear(out.weight, out.bias + of_values @ out.weight)
    return AttentionWeights(_scaled(_linear(block.query), block), out, _norm(frame.norm))


def _scaled(linear: Linear, block: Attention) -> Linear:
    """The queries, which come first, divided by the root of a head's width."""
    width = len(linear.weight)
    factor = torch.ones_like(linear.bias)
    factor[:width] = (width / block.heads) ** -0.5
    return Linear(linear.weight * factor, linear.bias * factor)


def _feed_forward(block: FeedForward, frame: Residual) -> FeedForwardWeights:
    return FeedForwardWeights(_linear(block.up), _linear(block.down), _norm(frame.norm))


def _encoder_layer(layer: EncoderLayer) -> EncoderLayerWeights:
    block = layer.attention
    every = _scaled(_linear(block.query, block.key_value), block)
    return EncoderLayerWeights(
        AttentionWeights(every, _linear(block.out), _norm(layer.attention_frame.norm)),
        _feed_forward(layer.feed_forward, layer.feed_forward_frame),
    )


def _decoder_layer(layer: DecoderLayer) -> DecoderLayerWeights:
    return DecoderLayerWeights(
        _attention(layer.self_attention, layer.self_frame),
        _attention(layer.cross_attention, layer.cross_frame),
        _feed_forward(layer.feed_forward, layer.feed_forward_frame),
    )
