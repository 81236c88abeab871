"""The autoregressive transformer (AT): the baseline, the teacher, and with contextless keys an ablation."""

from __future__ import annotations

import torch
from torch import Tensor

from disco_mt.models.base import TranslationModel
from disco_mt.models.config import ModelConfig
from disco_mt.models.encoder import Encoded
from disco_mt.models.layers import DecoderLayer, KeyValue
from disco_mt.special import BOS


class Past:
    """Keys and values of the words so far, in buffers that double: a step costs its attention, no more."""

    def __init__(self, layers: int) -> None:
        self.length = 0
        self.buffers: list[KeyValue | None] = [None] * layers

    def extend(self, layer: int, new: KeyValue) -> KeyValue:
        """Append one position, (rows, heads, 1, size) each, and return all up to it."""
        buffer = self._room(layer, new)
        buffer.key[:, :, self.length] = new.key[:, :, 0]
        buffer.value[:, :, self.length] = new.value[:, :, 0]
        end = self.length + 1
        return KeyValue(buffer.key[:, :, :end], buffer.value[:, :, :end])

    def select(self, rows: Tensor) -> None:
        """Reorder, repeat or drop rows (beam search)."""
        self.buffers = [None if buffer is None else buffer.rows(rows) for buffer in self.buffers]

    def _room(self, layer: int, new: KeyValue) -> KeyValue:
        buffer = self.buffers[layer]
        if buffer is None or buffer.key.shape[2] == self.length:
            rows, heads, _, size = new.key.shape
            grown = [new.key.new_empty(rows, heads, max(16, 2 * self.length), size) for _ in range(2)]
            if buffer is not None:
                grown[0][:, :, : self.length], grown[1][:, :, : self.length] = buffer
            buffer = self.buffers[layer] = KeyValue(*grown)
        return buffer


class Autoregressive(TranslationModel):
    """Reads BOS and the words so far, predicts the next word, and EOS at the end."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, with_length=False)

    def decode(self, target: Tensor, encoded: Encoded) -> Tensor:
        """All positions at once, teacher-forced: row n predicts target[n]. target: (batch, tgt) with EOS."""
        inputs = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        h = embedded = self.dropout(self.embed(inputs))
        size = inputs.shape[1]
        causal = torch.ones(1, size, size, dtype=torch.bool, device=target.device).tril()
        for layer, source in zip(self.decoder_layers, encoded.cross, strict=True):
            h = layer(h, self._keys(layer, h, embedded), causal, source, encoded.visible)
        hidden: Tensor = self.norm(h)
        return hidden

    def start(self) -> Past:
        """An empty prefix."""
        return Past(len(self.layers))

    def step(self, last: Tensor, past: Past, encoded: Encoded) -> Tensor:
        """One more position: last (rows,) is the newest word, `past` grows by it -> hidden (rows, width)."""
        h = embedded = self.embed(last[:, None], start=past.length)
        for place, (layer, source) in enumerate(zip(self.decoder_layers, encoded.cross, strict=True)):
            keys = past.extend(place, self._keys(layer, h, embedded))
            h = layer(h, keys, None, source, encoded.visible)
        past.length += 1
        hidden: Tensor = self.norm(h)
        return hidden[:, 0]

    def _keys(self, layer: DecoderLayer, h: Tensor, embedded: Tensor) -> KeyValue:
        return layer.contextless_keys(embedded) if self.config.contextless else layer.contextual_keys(h)
