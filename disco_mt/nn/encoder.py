"""A standard transformer encoder, with a length slot if the model needs one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from disco_mt.core.special_tokens import PAD
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.dropout import Dropout
from disco_mt.nn.layers import EncoderLayer, KeyValue, Positions, final_norm
from disco_mt.nn.length import LengthPredictor, length_prior


@dataclass(frozen=True)
class Encoded:
    """What the decoder needs of the source, computed once per sentence."""

    cross: tuple[KeyValue, ...]  # keys and values of the source, one pair per decoder layer
    visible: Tensor  # (batch, 1, src) bool
    length_log_probs: Tensor | None  # (batch, classes); None in autoregressive models

    def rows(self, index: Tensor) -> Encoded:
        """The chosen sentences, in that order; repetitions are allowed (one row per length candidate)."""
        lengths = None if self.length_log_probs is None else self.length_log_probs[index]
        return Encoded(tuple(layer.rows(index) for layer in self.cross), self.visible[index], lengths)


class Encoder(nn.Module):
    """Word + position vectors through the layers; the output of the length slot, if any, scores lengths."""

    def __init__(self, config: ModelConfig, with_length: bool) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.source_vocabulary, config.width)
        self.positions = Positions(config.max_source, config)
        slot = with_length and config.length.predictor == "slot"
        self.length = LengthPredictor(config.length_classes, config.width) if slot else None
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder.layers))
        self.norm = final_norm(config)

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """source: (batch, src) -> memory (batch, src, width), visible (batch, 1, src), length log-probs."""
        real = source != PAD
        x = scaled(self.words(source), self.config) + self.positions(source.shape[1])
        if self.length is not None:
            x = torch.cat([self.length.slot(len(x)), x], dim=1)
            real = torch.cat([real.new_ones(len(real), 1), real], dim=1)
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, real[:, None])
        x = self.norm(x)
        if self.length is None:
            return x, real[:, None], None
        real = real[:, 1:]
        return x[:, 1:], real[:, None], self.length.log_probs(x[:, 0], self._prior(real))

    def _prior(self, real: Tensor) -> Tensor | None:
        """The length prior. real: (batch, src)."""
        length, classes = self.config.length, self.config.length_classes
        return length_prior(length, real.sum(dim=1), classes) if length.prior else None


def scaled(words: Tensor, config: ModelConfig) -> Tensor:
    """Word embeddings, scaled as the config says."""
    return words * config.embedding_scale if config.scale_embeddings else words
