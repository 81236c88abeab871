"""The blocks of all models: attention, feed-forward, encoder layer and decoder layer."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.nn.dropout import Dropout

ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU}
_EMBEDDING_SCALE = 0.02 * math.sqrt(2)  # sinusoids scaled like N(0, 0.02) embeddings


class KeyValue(NamedTuple):
    """Projected keys and values, (batch, heads, key, width / heads) each."""

    key: Tensor
    value: Tensor

    def rows(self, index: Tensor) -> KeyValue:
        """The chosen batch rows, in that order."""
        return KeyValue(self.key[index], self.value[index])


class LayerNorm(nn.LayerNorm):
    """LayerNorm in float32 at least: the paper's epsilon of 1e-12 underflows in half precision."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config.width, eps=config.norm_epsilon)

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype in (torch.float16, torch.bfloat16):
            weight, bias = self.weight.float(), self.bias.float()
            return F.layer_norm(x.float(), self.normalized_shape, weight, bias, self.eps).type_as(x)
        return super().forward(x)


class Positions(nn.Module):
    """One vector per position, learned or sinusoidal."""

    def __init__(self, rows: int, config: ModelConfig) -> None:
        super().__init__()
        self.scale = 1.0 if config.positions == "marian" else _EMBEDDING_SCALE
        if config.positions == "learned":
            self.weight = nn.Parameter(torch.empty(rows, config.width))
        else:
            self.register_buffer("weight", torch.empty(rows, config.width), persistent=False)
            self.fill()

    def fill(self) -> None:
        """Compute the table if it is sinusoidal."""
        if not isinstance(self.weight, nn.Parameter):
            self.weight.copy_(self.scale * sinusoids(*self.weight.shape))

    def forward(self, length: int, start: int = 0) -> Tensor:
        """`length` positions from `start` on: (length, width)."""
        return self.weight[start : start + length]


def sinusoids(rows: int, width: int) -> Tensor:
    """Vaswani et al.'s fixed table, all sines before all cosines: (rows, width)."""
    frequency = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angle = torch.arange(rows)[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=1)[:, :width]


class Attention(nn.Module):
    """Multi-head attention; keys and values are projected separately, so they can come from anywhere."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def project(self, source: Tensor) -> KeyValue:
        """Keys and values of `source` (batch, key, width)."""
        key, value = self.key_value(source).chunk(2, dim=-1)
        return KeyValue(self._split(key), self._split(value))

    def forward(self, x: Tensor, keys: KeyValue, visible: Tensor | None) -> Tensor:
        """x: (batch, query, width); visible: (batch, query or 1, key), True = may attend, None = all."""
        mask = None if visible is None else visible[:, None]
        dropout = self.dropout if self.training else 0.0
        query = self._split(self.query(x))
        mixed = F.scaled_dot_product_attention(query, keys.key, keys.value, attn_mask=mask, dropout_p=dropout)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(x.shape))
        return out

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)  # (batch, heads, length, width / heads)


class FeedForward(nn.Module):
    """Two linear layers with an activation between them."""

    def __init__(self, width: int, hidden: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(self.dropout(self.activation(self.up(x))))
        return out


class Residual(nn.Module):
    """The residual connection around a block: x + dropout(block(x)), with LayerNorm after it or before."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = LayerNorm(config)
        self.dropout = Dropout(config.dropout)
        self.pre = config.norm == "pre"

    def enter(self, x: Tensor) -> Tensor:
        """The input of the block."""
        return self.norm(x) if self.pre else x

    def leave(self, x: Tensor, out: Tensor) -> Tensor:
        """The residual stream after the block."""
        x = self.dropout.add(x, out)
        return x if self.pre else self.norm(x)


class EncoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = Attention(config.width, config.encoder.heads, config.attention_dropout)
        self.attention_frame = Residual(config)
        self.feed_forward = feed_forward(config, config.encoder)
        self.feed_forward_frame = Residual(config)

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        """x: (batch, src, width); visible: (batch, 1, src)."""
        inputs = self.attention_frame.enter(x)
        x = self.attention_frame.leave(x, self.attention(inputs, self.attention.project(inputs), visible))
        return self.feed_forward_frame.leave(x, self.feed_forward(self.feed_forward_frame.enter(x)))


class DecoderLayer(nn.Module):
    """Self-attention to given keys and values, cross-attention to the source, feed-forward.

    The systems differ in the source of the self-attention keys: the embeddings in every layer (contextless:
    DisCo) or the input of the layer (contextual: CMLM, autoregressive).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        heads, dropout = config.decoder.heads, config.attention_dropout
        self.self_attention = Attention(config.width, heads, dropout)
        self.self_frame = Residual(config)
        self.cross_attention = Attention(config.width, heads, dropout)
        self.cross_frame = Residual(config)
        self.feed_forward = feed_forward(config, config.decoder)
        self.feed_forward_frame = Residual(config)

    def contextless_keys(self, embedded: Tensor) -> KeyValue:
        """Keys and values from word + position vectors, which are the same in every layer."""
        return self.self_attention.project(embedded)

    def contextual_keys(self, h: Tensor) -> KeyValue:
        """Keys and values from the input of the layer, as in a standard transformer."""
        return self.self_attention.project(self.self_frame.enter(h))

    def forward(
        self, h: Tensor, keys: KeyValue, visible: Tensor | None, source: KeyValue, source_visible: Tensor
    ) -> Tensor:
        """h: (batch, tgt, width); visible: (batch, tgt, key); source_visible: (batch, 1, src)."""
        h = self.self_frame.leave(h, self.self_attention(self.self_frame.enter(h), keys, visible))
        h = self.cross_frame.leave(h, self.cross_attention(self.cross_frame.enter(h), source, source_visible))
        return self.feed_forward_frame.leave(h, self.feed_forward(self.feed_forward_frame.enter(h)))


def feed_forward(config: ModelConfig, stack: Stack) -> FeedForward:
    return FeedForward(config.width, stack.hidden, config.activation, config.activation_dropout)


def final_norm(config: ModelConfig) -> nn.Module:
    """Pre-norm stacks end with another LayerNorm."""
    return LayerNorm(config) if config.norm == "pre" else nn.Identity()
