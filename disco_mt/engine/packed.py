"""A DisCo model's weights, rearranged for fast runtimes: untransposed matrices, fused products.

Matrices are (in, out) and contiguous; the query projection includes the scale of the attention scores. Keys
and values are contextless, so one product computes those of all decoder layers; another those of the source.

Keys and values need no bias. The bias of the keys adds the same to all scores of a query, which the softmax
cancels; the bias of the values passes through attention unchanged and is folded into the output bias.

The scale of word embeddings is folded into their table, the learned query vector into the query positions.
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
    """LayerNorm: gain and shift, (width,) each, and epsilon."""

    weight: Tensor
    bias: Tensor
    epsilon: float


class AttentionWeights(NamedTuple):
    """One attention block and its LayerNorm. In an encoder, `query` also projects keys and values."""

    query: Linear
    out: Linear
    norm: Norm


class FeedForwardWeights(NamedTuple):
    up: Linear
    down: Linear
    norm: Norm


class EncoderLayerWeights(NamedTuple):
    attention: AttentionWeights
    feed_forward: FeedForwardWeights


class DecoderLayerWeights(NamedTuple):
    """One decoder layer without the projections of keys and values."""

    attention: AttentionWeights
    cross: AttentionWeights
    feed_forward: FeedForwardWeights


@dataclass(frozen=True)
class PackedDisCo:
    config: ModelConfig
    source_words: Tensor  # (vocabulary, width), scaled
    source_positions: Tensor  # (longest, width)
    lengths: Tensor | None  # (classes, width); row 0 is the slot in front of the source
    pooled: PooledLength | None  # the length predictor of models without a slot
    encoder: tuple[EncoderLayerWeights, ...]
    encoder_norm: Norm | None  # of pre-norm stacks
    source_keys: Tensor  # (width, 2 * layers * width): keys and values of the source, layer by layer
    words: Tensor  # (vocabulary, width), scaled
    key_positions: Tensor  # (longest, width), by key slot: the start token's, if any, comes first
    query_positions: Tensor  # (longest, width), the initial query of each position
    target_keys: Tensor  # (width, 2 * layers * width): contextless keys and values, layer by layer
    decoder: tuple[DecoderLayerWeights, ...]
    decoder_norm: Norm | None
    output: Tensor  # (width, vocabulary)
    output_bias: Tensor | None  # (vocabulary,)

    @property
    def layers(self) -> int:
        return len(self.decoder)

    @property
    def slots(self) -> int:
        """Length slots in front of the source: 1 or 0."""
        return 0 if self.lengths is None else 1


@torch.no_grad()
def pack(model: DisCo) -> PackedDisCo:
    """Copies of a model's weights, in its own dtype."""
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
    """Several linear layers as one."""
    weight = torch.cat([part.weight.detach() for part in parts])
    return Linear(weight.T.contiguous(), torch.cat([part.bias.detach() for part in parts]))


def _norm(norm: LayerNorm) -> Norm:
    return Norm(norm.weight.detach(), norm.bias.detach(), norm.eps)


def _last_norm(norm: nn.Module) -> Norm | None:
    return _norm(norm) if isinstance(norm, LayerNorm) else None


def _attention(block: Attention, frame: Residual) -> AttentionWeights:
    _, value_bias = block.key_value.bias.detach().chunk(2)
    out = _linear(block.out)
    out = Linear(out.weight, out.bias + value_bias @ out.weight)
    return AttentionWeights(_scaled(_linear(block.query), block), out, _norm(frame.norm))


def _scaled(linear: Linear, block: Attention) -> Linear:
    """The query columns, which come first, divided by the square root of the head size."""
    width = len(linear.weight)
    factor = torch.ones_like(linear.bias)
    factor[:width] = (width / block.heads) ** -0.5
    return Linear(linear.weight * factor, linear.bias * factor)


def _feed_forward(block: FeedForward, frame: Residual) -> FeedForwardWeights:
    return FeedForwardWeights(_linear(block.up), _linear(block.down), _norm(frame.norm))


def _encoder_layer(layer: EncoderLayer) -> EncoderLayerWeights:
    block = layer.attention
    projections = _scaled(_linear(block.query, block.key_value), block)
    return EncoderLayerWeights(
        AttentionWeights(projections, _linear(block.out), _norm(layer.attention_frame.norm)),
        _feed_forward(layer.feed_forward, layer.feed_forward_frame),
    )


def _decoder_layer(layer: DecoderLayer) -> DecoderLayerWeights:
    return DecoderLayerWeights(
        _attention(layer.self_attention, layer.self_frame),
        _attention(layer.cross_attention, layer.cross_frame),
        _feed_forward(layer.feed_forward, layer.feed_forward_frame),
    )
