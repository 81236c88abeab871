"""The autoregressive transformer (AT): the baseline, the teacher, and with contextless keys an ablation."""

from __future__ import annotations

import torch
from torch import Tensor

from disco_mt.models.base import BestWords, TranslationModel
from disco_mt.models.config import ModelConfig
from disco_mt.models.encoder import Encoded
from disco_mt.models.layers import DecoderLayer, KeyValue
from disco_mt.special import BOS, MASK, PAD, UNK


class Past:
    """Keys and values of the words so far, in buffers that double: a step costs its attention, no more.

    A second set of buffers takes what `select` picks, then the two change places: nothing is allocated,
    and nothing beyond the words so far is copied.
    """

    def __init__(self, layers: int) -> None:
        self.length = 0
        self.buffers: list[KeyValue | None] = [None] * layers
        self.spares: list[KeyValue | None] = [None] * layers

    def extend(self, layer: int, new: KeyValue) -> KeyValue:
        """Append one position, (rows, heads, 1, size) each, and return all up to it."""
        buffer = self._room(layer, new)
        buffer.key[:, :, self.length] = new.key[:, :, 0]
        buffer.value[:, :, self.length] = new.value[:, :, 0]
        end = self.length + 1
        return KeyValue(buffer.key[:, :, :end], buffer.value[:, :, :end])

    def select(self, rows: Tensor) -> None:
        """Reorder, repeat or drop rows (beam search). rows: (new rows,) places among the old ones."""
        for layer, old in enumerate(self.buffers):
            if old is None or _in_place(rows, len(old.key)):
                continue
            spare = self.spares[layer]
            if spare is None or spare.key.shape[2] != old.key.shape[2] or len(spare.key) < len(rows):
                spare = KeyValue(*(part.new_empty(len(rows), *part.shape[1:]) for part in old))
            new = KeyValue(spare.key[: len(rows)], spare.value[: len(rows)])
            for source, goal in zip(old, new, strict=True):
                used = slice(None), slice(None), slice(self.length)
                torch.index_select(source[used], 0, rows, out=goal[used])
            self.buffers[layer], self.spares[layer] = new, old

    def _room(self, layer: int, new: KeyValue) -> KeyValue:
        buffer = self.buffers[layer]
        if buffer is None or buffer.key.shape[2] == self.length:
            rows, heads, _, size = new.key.shape
            grown = [new.key.new_empty(rows, heads, max(16, 2 * self.length), size) for _ in range(2)]
            if buffer is not None:
                grown[0][:, :, : self.length], grown[1][:, :, : self.length] = buffer
            buffer = self.buffers[layer] = KeyValue(*grown)
        return buffer


def _in_place(rows: Tensor, size: int) -> bool:
    """Would `select` change nothing?"""
    return len(rows) == size and torch.equal(rows, torch.arange(size, device=rows.device))


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
        """One more position: last (rows,) is the newest word, `past` grows by it -> hidden (rows, width).

        `encoded` has a row a sentence; `last` may have several, one after the other: the beams share them.
        """
        h = embedded = self.embed(last[:, None], start=past.length)
        for place, (layer, source) in enumerate(zip(self.decoder_layers, encoded.cross, strict=True)):
            keys = past.extend(place, self._keys(layer, h, embedded))
            h = layer(h, keys, None, source, encoded.visible)
        past.length += 1
        hidden: Tensor = self.norm(h)
        return hidden[:, 0]

    def next_words(self, hidden: Tensor, number: int) -> BestWords:
        """The likeliest continuations, words and EOS, best first: (rows, width) -> (rows, number) each.

        Softmax over all entries; special tokens but EOS are never among them (they have -inf).
        """
        number = min(number, self.config.target_vocabulary)
        chunks = [_likeliest(hidden[rows] @ self.output.weight.T, number) for rows in self._chunks(hidden)]
        return BestWords(torch.cat([ids for ids, _ in chunks]), torch.cat([logs for _, logs in chunks]))

    def _keys(self, layer: DecoderLayer, h: Tensor, embedded: Tensor) -> KeyValue:
        return layer.contextless_keys(embedded) if self.config.contextless else layer.contextual_keys(h)


def _likeliest(logits: Tensor, number: int) -> tuple[Tensor, Tensor]:
    norm = logits.logsumexp(dim=1, keepdim=True)
    logits[:, [BOS, PAD, UNK, MASK]] = -torch.inf
    best, ids = logits.topk(number, dim=1)
    return ids, best - norm
