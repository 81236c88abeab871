"""The autoregressive transformer (AT): baseline and teacher; with contextless keys, an ablation."""

from __future__ import annotations

import torch
from torch import Tensor

from disco_mt.core.special_tokens import BOS, MASK, PAD, UNK
from disco_mt.nn.base import BestWords, TranslationModel, join_best_words
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.encoder import Encoded, scaled
from disco_mt.nn.layers import DecoderLayer, KeyValue


class KVCache:
    """Keys and values of the words so far, in buffers that double their size when they are full.

    One row per sentence: all beams of a sentence append to the same row. Nothing is moved when beams are
    reordered; a mask tells which entries a beam descends from (decoding.py).
    """

    def __init__(self, layers: int) -> None:
        self.length = 0  # entries per row
        self.buffers: list[KeyValue | None] = [None] * layers

    def extend(self, layer: int, new: KeyValue) -> KeyValue:
        """Append entries, (rows, heads, entries, size) each, and return all; the caller updates `length`."""
        end = self.length + new.key.shape[2]
        buffer = self._room(layer, new, end)
        buffer.key[:, :, self.length : end] = new.key
        buffer.value[:, :, self.length : end] = new.value
        return KeyValue(buffer.key[:, :, :end], buffer.value[:, :, :end])

    def select(self, rows: Tensor) -> None:
        """Keep only the chosen rows, in that order."""
        self.buffers = [None if buffer is None else buffer.rows(rows) for buffer in self.buffers]

    def _room(self, layer: int, new: KeyValue, end: int) -> KeyValue:
        buffer = self.buffers[layer]
        if buffer is None or buffer.key.shape[2] < end:
            rows, heads, _, size = new.key.shape
            grown = [new.key.new_empty(rows, heads, max(16, 2 * end), size) for _ in range(2)]
            if buffer is not None:
                for new_buffer, old_buffer in zip(grown, buffer, strict=True):
                    new_buffer[:, :, : self.length] = old_buffer[:, :, : self.length]
            buffer = self.buffers[layer] = KeyValue(*grown)
        return buffer


class Autoregressive(TranslationModel):
    """Predicts the next word, or EOS, from BOS and the words so far."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, with_length=False)

    def decode(self, target: Tensor, encoded: Encoded) -> Tensor:
        """Teacher-forced, in parallel: row n predicts target[n]. target: (batch, tgt) with EOS."""
        hidden: Tensor = self.norm(self.states(target, encoded)[-1])
        return hidden

    def states(self, target: Tensor, encoded: Encoded) -> list[Tensor]:
        """The decoder's input, w + p, and the output of each layer: (batch, tgt, width) each."""
        inputs = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
        states = [self.dropout(self.embed(inputs))]
        size = inputs.shape[1]
        causal = torch.ones(1, size, size, dtype=torch.bool, device=target.device).tril()
        for layer, source in zip(self.decoder_layers, encoded.cross, strict=True):
            keys = self._keys(layer, states[-1], states[0])
            states.append(layer(states[-1], keys, causal, source, encoded.visible))
        return states

    def start(self) -> KVCache:
        return KVCache(len(self.layers))

    def step(
        self, last: Tensor, place: int, visible: Tensor | None, past: KVCache, encoded: Encoded
    ) -> Tensor:
        """Decode position `place`, and add the newest words to `past` -> hidden (sentences, beams, width).

        last: (sentences, beams) the newest words; visible: (sentences, beams, entries of `past` and then
        those of `last`) bool, those of a beam's own words; None: all. encoded: one row per sentence.
        """
        h = embedded = scaled(self.words(last), self.config) + self.positions(1, start=place)
        for number, (layer, source) in enumerate(zip(self.decoder_layers, encoded.cross, strict=True)):
            keys = past.extend(number, self._keys(layer, h, embedded))
            h = layer(h, keys, visible, source, encoded.visible)
        past.length += last.shape[1]
        hidden: Tensor = self.norm(h)
        return hidden

    def next_words(self, hidden: Tensor, number: int) -> BestWords:
        """The most likely continuations, words or EOS, best first: (rows, width) -> (rows, number) each.

        Softmax over the whole vocabulary; special tokens except EOS have -inf.
        """
        number = min(number, self.config.target_vocabulary)
        chunks = self._chunks(hidden)
        return join_best_words([_most_likely(self.logits(hidden[rows]), number) for rows in chunks])

    def _keys(self, layer: DecoderLayer, h: Tensor, embedded: Tensor) -> KeyValue:
        return layer.contextless_keys(embedded) if self.config.contextless else layer.contextual_keys(h)


def _most_likely(logits: Tensor, number: int) -> BestWords:
    norm = logits.logsumexp(dim=1, keepdim=True)
    logits[:, [BOS, PAD, UNK, MASK]] = -torch.inf
    best, ids = logits.topk(number, dim=1)
    return BestWords(ids, best - norm)
