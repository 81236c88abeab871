"""The engine's arithmetic in torch, in the model's own number format (float32; float64 in proofs)."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from disco_mt.core.special_tokens import PAD
from disco_mt.engine.best_words import OutputTable, best_among, given_words
from disco_mt.engine.packed import AttentionWeights, FeedForwardWeights, Linear, Norm, PackedDisCo, pack
from disco_mt.engine.ragged import Groups
from disco_mt.engine.runtime import Rows, RunJobs, Source, run_in_turn
from disco_mt.nn.base import BestWords
from disco_mt.nn.length import length_prior
from disco_mt.systems.disco.model import DisCo

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu}


class TorchRuntime:
    """Flat rows through packed weights."""

    def __init__(self, model: DisCo) -> None:
        self.weights = pack(model)
        self.config = model.config
        self.dtype = self.weights.words.dtype
        self.longest_target = model.config.longest_target
        self.start = int(model.config.start_token)
        self.pre_norm = model.config.norm == "pre"
        self.activation = _ACTIVATIONS[model.config.activation]
        self.output = OutputTable(self.weights.output, self.weights.output_bias)
        self.table = model.output.weight.detach()
        self.first_queries = self._first_queries()

    def _first_queries(self) -> Tensor:
        """Queries of the first layer, which depend only on the position. (longest, width)."""
        block = self.weights.decoder[0].attention
        return _linear(self._enter(self.weights.query_positions, block.norm), block.query)

    def encode(self, source: Tensor) -> Source:
        weights = self.weights
        real = source != PAD
        x = F.embedding(source, weights.source_words) + weights.source_positions[: source.shape[1]]
        if weights.lengths is not None:
            x = torch.cat([weights.lengths[0].expand(len(x), 1, -1), x], dim=1)
        mask = None if real.all() else F.pad(real, (weights.slots, 0), value=True)[:, None, None]
        for layer in weights.encoder:
            x = self._encoder_attention(x, layer.attention, mask)
            x = self._feed_forward(x, layer.feed_forward)
        x = _final_norm(x, weights.encoder_norm)
        keys = x[:, weights.slots :] @ weights.source_keys  # (sentences, src, 2 * layers * width)
        heads = self.config.decoder.heads
        keys = keys.view(*keys.shape[:2], 2 * weights.layers, heads, -1).permute(2, 0, 3, 1, 4).contiguous()
        return Source(keys, real, length_log_probs(weights, x, real))

    def put_keys(self, tokens: Tensor, candidates: Tensor, slots: Tensor, into: Tensor) -> None:
        embedded = self.weights.words[tokens] + self.weights.key_positions[slots]
        place_keys(embedded @ self.weights.target_keys, None, candidates, slots, into)

    def first_pass(self, rows: Rows, anchors: Tensor, source: Source) -> Tensor:
        h = self.weights.query_positions[rows.places]
        cross = Groups.of(rows.sentences, len(source.visible))
        mask = _source_mask(source)
        for number, layer in enumerate(self.weights.decoder):
            out = _linear(anchors[2 * number + 1], layer.attention.out)  # one row per candidate
            h = self._leave(h, out[rows.candidates], layer.attention.norm)
            h = self._cross(h, layer.cross, source.keys[2 * number : 2 * number + 2], cross, mask)
            h = self._feed_forward(h, layer.feed_forward)
        return _final_norm(h, self.weights.decoder_norm)

    def later_pass(self, rows: Rows, visible: Tensor, keys: Tensor, source: Source) -> Tensor:
        h = self.weights.query_positions[rows.places]
        target = Groups.of(rows.candidates, keys.shape[1])
        cross = Groups.of(rows.sentences, len(source.visible))
        cross_mask = _source_mask(source)
        bias = torch.zeros(visible.shape, dtype=self.dtype).masked_fill_(~visible, -torch.inf)
        mask = target.padded(bias)[:, None]
        for number, layer in enumerate(self.weights.decoder):
            pair = slice(2 * number, 2 * number + 2)
            block = layer.attention
            query = self.first_queries[rows.places] if number == 0 else self._query(h, block)
            h = self._leave(h, _linear(self._attend(query, keys[pair], target, mask), block.out), block.norm)
            h = self._cross(h, layer.cross, source.keys[pair], cross, cross_mask)
            h = self._feed_forward(h, layer.feed_forward)
        return _final_norm(h, self.weights.decoder_norm)

    def word_log_probs(self, hidden: Tensor, ids: Tensor) -> Tensor:
        return given_words(hidden, self.table, ids, self.weights.output_bias)

    def best_words(
        self, hidden: Tensor, entries: Tensor | None, run_jobs: RunJobs = run_in_turn
    ) -> BestWords:
        if entries is None:
            return self.output.best(hidden)
        return best_among(hidden, self.table, entries, self.weights.output_bias)

    def _encoder_attention(self, x: Tensor, block: AttentionWeights, mask: Tensor | None) -> Tensor:
        query, key, value = _linear(self._enter(x, block.norm), block.query).chunk(3, dim=-1)
        heads = self.config.encoder.heads
        mixed = F.scaled_dot_product_attention(
            _split(query, heads), _split(key, heads), _split(value, heads), attn_mask=mask, scale=1.0
        )
        return self._leave(x, _linear(_merge(mixed), block.out), block.norm)

    def _cross(
        self, h: Tensor, block: AttentionWeights, keys: Tensor, groups: Groups, mask: Tensor | None
    ) -> Tensor:
        mixed = self._attend(self._query(h, block), keys, groups, mask)
        return self._leave(h, _linear(mixed, block.out), block.norm)

    def _query(self, h: Tensor, block: AttentionWeights) -> Tensor:
        return _linear(self._enter(h, block.norm), block.query)

    def _attend(self, query: Tensor, keys: Tensor, groups: Groups, mask: Tensor | None) -> Tensor:
        """query: (rows, width); keys: (2, groups, heads, length, size).

        mask: (groups, 1, widest or 1, length).
        """
        padded = _split(groups.padded(query), self.config.decoder.heads)
        mixed = F.scaled_dot_product_attention(padded, keys[0], keys[1], attn_mask=mask, scale=1.0)
        return groups.flat(_merge(mixed))

    def _feed_forward(self, x: Tensor, block: FeedForwardWeights) -> Tensor:
        hidden = self.activation(_linear(self._enter(x, block.norm), block.up))
        return self._leave(x, _linear(hidden, block.down), block.norm)

    def _enter(self, x: Tensor, norm: Norm) -> Tensor:
        return _layer_norm(x, norm) if self.pre_norm else x

    def _leave(self, x: Tensor, out: Tensor, norm: Norm) -> Tensor:
        out.add_(x)
        return out if self.pre_norm else _layer_norm(out, norm)


def place_keys(keys: Tensor, scale: Tensor | None, candidates: Tensor, slots: Tensor, into: Tensor) -> None:
    """Write projected keys and values (n, 2 * layers * width) to `into`; see Runtime.put_keys.

    scale: (n, 1) what they are multiplied by first. Most are neighbours, and writing each run of neighbours
    as one block of memory is faster than indexing.
    """
    layers, _, heads, length, size = into.shape
    split = keys.view(len(keys), layers, heads, size).permute(1, 2, 0, 3)
    ends = (candidates * (length + 1) + slots).diff().ne(1).nonzero()[:, 0].add(1).tolist()
    starts = [0, *ends]
    firsts = zip(candidates[starts].tolist(), slots[starts].tolist(), strict=True)
    for start, end, (candidate, slot) in zip(starts, [*ends, len(keys)], firsts, strict=True):
        run = split[:, :, start:end]
        out = into[:, candidate, :, slot : slot + end - start]
        if scale is None:
            out.copy_(run)
        else:
            torch.mul(run, scale[start:end], out=out)


def length_log_probs(weights: PackedDisCo, states: Tensor, real: Tensor) -> Tensor:
    """The length predictor: (sentences, classes).

    states: (sentences, slot and src, width), the encoder's output; real: (sentences, src), no padding.
    """
    if weights.lengths is None:
        assert weights.pooled is not None
        return weights.pooled.log_probs(states, real)
    scores = states[:, 0] @ weights.lengths.T
    length = weights.config.length
    if length.prior:
        scores = scores + length_prior(length, real.sum(dim=1), scores.shape[1])
    return slot_log_probs(scores)


def slot_log_probs(scores: Tensor) -> Tensor:
    """Log probabilities from scores of lengths, (sentences, classes), in place; length 0 is impossible."""
    scores[:, 0] = -torch.inf
    return scores.log_softmax(dim=1)


def _linear(x: Tensor, linear: Linear) -> Tensor:
    flat = x.reshape(-1, x.shape[-1])
    return torch.addmm(linear.bias, flat, linear.weight).view(*x.shape[:-1], -1)


def _layer_norm(x: Tensor, norm: Norm) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), *norm)


def _final_norm(x: Tensor, norm: Norm | None) -> Tensor:
    return x if norm is None else _layer_norm(x, norm)


def _split(x: Tensor, heads: int) -> Tensor:
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)  # (groups, heads, length, width / heads)


def _merge(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def _source_mask(source: Source) -> Tensor | None:
    """(sentences, 1, 1, src), or None without padding."""
    return None if source.visible.all() else source.visible[:, None, None]
