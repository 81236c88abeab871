"""The engine's arithmetic in compiled kernels (kernels.c): int8 on processors with AMX.

A matrix is rounded once, with a scale a column; the rows that it meets are rounded as they come, with a scale
a row, so that no row depends on its batch mates. Sums are exact integers. Attention, LayerNorm and sums of
blocks stay in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_int64
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import NUM_SPECIAL, PAD
from disco_mt.engine.best_words import best_among, given_words
from disco_mt.engine.native import (
    LANES,
    CAttention,
    CFeedForward,
    CMatrix,
    CNorm,
    CSeen,
    CShape,
    kernels,
    pointer,
    rounded,
    up_to,
)
from disco_mt.engine.packed import AttentionWeights, FeedForwardWeights, Linear, Norm, pack
from disco_mt.engine.quantization import ACTIVE_ZERO, GELU_LEAST, ZERO
from disco_mt.engine.runtime import Rows, Source, one_after_another
from disco_mt.engine.torch_runtime import slot_log_probs
from disco_mt.nn.base import BestWords
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.systems.disco.model import DisCo

_ACTIVATIONS = {"relu": 1, "gelu": 2}
_UNKNOWN = ("norm_epsilon", "scale_embeddings", "output_bias", "start_token", "query_word")
"""Options that the kernels were never tried with: a model may have but their defaults."""
_SHARE = 512  # vocabulary entries that stay together when threads share them out


class NativeRuntime:
    """Flat rows through kernels.c."""

    def __init__(self, model: DisCo, shares: int = 1) -> None:
        """shares: of the vocabulary, which threads can take at the same time."""
        library, config = kernels(), model.config
        if missing := not_in_kernels(config):
            raise UserError(
                f"the int8 kernels do not know {missing}; use ONNX Runtime's int8, which does: "
                "pip install 'disco-mt[onnx]'"
            )
        if library is None:
            raise RuntimeError("the kernels are not compiled, or this processor has no AMX")
        self.kernels: Any = library
        weights = pack(model)
        self.dtype, self.longest_target, self.layers = torch.float32, config.longest_target, weights.layers
        self.start = 0
        self.source_words, self.source_positions = weights.source_words, weights.source_positions
        assert weights.lengths is not None  # see not_in_kernels
        self.words, self.positions, self.lengths = weights.words, weights.key_positions, weights.lengths
        self.encoder_norm, self.decoder_norm = weights.encoder_norm, weights.decoder_norm
        self.heads, self.size = config.decoder.heads, config.width // config.decoder.heads
        self.shape, self.encoder_shape = (_shape(config, stack) for stack in (config.decoder, config.encoder))
        self.kept: list[Any] = []  # tensors that the kernels have pointers into
        self.encoder = [
            (self._attention(layer.attention), self._feed_forward(layer.feed_forward))
            for layer in weights.encoder
        ]
        self.decoder = [
            (
                self._attention(layer.attention),
                self._attention(layer.cross),
                self._feed_forward(layer.feed_forward),
            )
            for layer in weights.decoder
        ]
        self.source_keys, self.target_keys, self.output = (
            self._matrix(Linear(each, each.new_zeros(each.shape[1])))
            for each in (weights.source_keys, weights.target_keys, weights.output)
        )
        self.table, self.vocabulary = model.output.weight.detach(), config.target_vocabulary
        step = up_to(-(-self.vocabulary // shares), _SHARE)
        self.shares = [
            (first, min(first + step, self.vocabulary)) for first in range(0, self.vocabulary, step)
        ]
        self.columns = self._columns()

    def _columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """Layer, head and place in the head of every 16th column of keys and values."""
        columns = torch.arange(0, self.target_keys.out, LANES)
        width = self.heads * self.size
        return columns // width, columns % width // self.size, columns % self.size

    def _matrix(self, linear: Linear, zero: int = ZERO) -> CMatrix:
        matrix, tensors = rounded(linear, zero)
        self.kept.append(tensors)
        return matrix

    def _norm(self, norm: Norm) -> CNorm:
        tensors = [each.detach().float().contiguous() for each in (norm.weight, norm.bias)]
        self.kept.append(tensors)
        return CNorm(*(each.data_ptr() for each in tensors))

    def _attention(self, block: AttentionWeights) -> CAttention:
        return CAttention(self._matrix(block.query), self._matrix(block.out), self._norm(block.norm))

    def _feed_forward(self, block: FeedForwardWeights) -> CFeedForward:
        down = self._matrix(block.down, self.shape.active_zero)
        return CFeedForward(self._matrix(block.up), down, self._norm(block.norm))

    def encode(self, source: Tensor) -> Source:
        """See Runtime."""
        real = source != PAD
        x = F.embedding(source, self.source_words) + self.source_positions[: source.shape[1]]
        x = torch.cat([self.lengths[0].expand(len(x), 1, -1), x], dim=1)
        visible = F.pad(real, (1, 0), value=True)
        for attention, feed_forward in self.encoder:
            self.kernels.disco_encoder_layer(
                *(byref(self.encoder_shape), pointer(x), c_int64(len(x)), c_int64(x.shape[1])),
                *(pointer(visible), byref(attention), byref(feed_forward)),
            )
        x = _last(x, self.encoder_norm)
        keys = x.new_empty(2 * self.layers, len(x), self.heads, source.shape[1], self.size)
        sentences, places = torch.ones_like(source).nonzero(as_tuple=True)
        self._project(x[:, 1:].flatten(0, 1), self.source_keys, sentences, places, keys)
        return Source(keys, real, slot_log_probs(x[:, 0] @ self.lengths.T))

    def put_keys(self, tokens: Tensor, candidates: Tensor, slots: Tensor, into: Tensor) -> None:
        """See Runtime."""
        vectors = self.words[tokens] + self.positions[slots]
        self._project(vectors, self.target_keys, candidates, slots, into)

    def _project(
        self, vectors: Tensor, matrix: CMatrix, groups: Tensor, places: Tensor, into: Tensor
    ) -> None:
        """Keys and values in all layers of vectors (n, width), to where they belong.

        groups, places: (n,); into: (2 * layers, groups, heads, length, size).
        """
        layer, group, head, place, _ = into.stride()
        if self.size % LANES:  # then 16 columns may be of two heads
            laid = vectors.new_empty(len(vectors), len(into), self.heads, self.size)
            self._product(vectors, matrix, laid, None, None)
            into[:, groups, :, places] = laid
            return
        of_layer, of_head, inside = self.columns
        columns = of_layer * layer + of_head * head + inside
        self._product(vectors, matrix, into, groups * group + places * place, columns)

    def _product(
        self, x: Tensor, matrix: CMatrix, into: Tensor, rows: Tensor | None, columns: Tensor | None
    ) -> None:
        """x @ matrix. rows, columns: where each row, and each 16 columns, begin."""
        offsets = (None if each is None else pointer(each) for each in (rows, columns))
        out = c_int64(2 * self.layers * self.heads * self.size)
        self.kernels.disco_product(
            *(byref(self.shape), pointer(x), c_int64(len(x)), byref(matrix), pointer(into), *offsets, out)
        )

    def first_pass(self, rows: Rows, anchors: Tensor, source: Source) -> Tensor:
        """See Runtime."""
        h, values = self.positions[rows.places], anchors[1::2].contiguous()
        for number, (attention, cross, feed_forward) in enumerate(self.decoder):
            self.kernels.disco_first_layer(
                *(byref(self.shape), pointer(h), c_int64(len(h)), byref(attention)),
                *(pointer(values[number]), c_int64(values.shape[1]), pointer(rows.candidates)),
                *(byref(cross), byref(_source(rows, source, number)), byref(feed_forward)),
            )
        return _last(h, self.decoder_norm)

    def later_pass(self, rows: Rows, visible: Tensor, keys: Tensor, source: Source) -> Tensor:
        """See Runtime."""
        h = self.positions[rows.places]
        for number, (attention, cross, feed_forward) in enumerate(self.decoder):
            seen = _seen(keys, number, visible, True, rows.candidates)
            self.kernels.disco_later_layer(
                *(byref(self.shape), pointer(h), c_int64(len(h)), byref(attention), byref(seen)),
                *(byref(cross), byref(_source(rows, source, number)), byref(feed_forward)),
            )
        return _last(h, self.decoder_norm)

    def word_log_probs(self, hidden: Tensor, ids: Tensor) -> Tensor:
        """See Runtime."""
        return given_words(hidden, self.table, ids)

    def best_words(
        self, hidden: Tensor, entries: Tensor | None, together: Callable[..., list[Any]] = one_after_another
    ) -> BestWords:
        """See Runtime. Each thread reads its share of the vocabulary alone."""
        if entries is not None:  # so few that float32 costs nothing
            return best_among(hidden, self.table, entries)
        found = together([partial(self._best, hidden, *share) for share in self.shares])
        if len(found) == 1:
            ((tops, ids, totals),) = found
            return BestWords(ids, tops - totals)
        tops, ids, totals = (torch.stack(parts) for parts in zip(*found, strict=True))  # (shares, rows)
        best, winner = tops.max(dim=0, keepdim=True)
        return BestWords(ids.gather(0, winner)[0], best[0] - totals.logsumexp(dim=0))

    def _best(self, hidden: Tensor, first: int, last: int) -> tuple[Tensor, Tensor, Tensor]:
        """Of entries `first` to `last`: the largest logit of words, its entry, and the logsumexp of all."""
        tops, marks, sums = hidden.new_empty(3, len(hidden))
        ids = torch.empty(len(hidden), dtype=torch.long)
        numbers = (c_int64(number) for number in (first, last, NUM_SPECIAL))
        self.kernels.disco_best(
            *(byref(self.shape), pointer(hidden), c_int64(len(hidden)), byref(self.output), *numbers),
            *(pointer(each) for each in (tops, ids, marks, sums)),
        )
        return tops, ids, marks + sums.log()


def not_in_kernels(config: ModelConfig) -> str:
    """The options of a model that the kernels do not know, by name; "" if they can run it."""
    plain = ModelConfig()
    unknown = [name for name in _UNKNOWN if getattr(config, name) != getattr(plain, name)]
    unknown += ["activation"] if config.activation not in _ACTIVATIONS else []
    unknown += ["positions"] if config.positions == "marian" else []
    missing = [f"{name} = {getattr(config, name)!r}" for name in unknown]
    length = config.length
    missing += [f"length.predictor = {length.predictor!r}"] if length.predictor != "slot" else []
    missing += ["length.prior = True"] if length.prior else []
    return ", ".join(missing)


def _shape(config: ModelConfig, stack: Stack) -> CShape:
    relu = config.activation == "relu"
    return CShape(
        *(config.width, stack.heads, stack.hidden, config.norm == "pre", _ACTIVATIONS[config.activation]),
        *(
            config.norm_epsilon,
            0.0 if relu else GELU_LEAST / ACTIVE_ZERO,
            ZERO,
            0 if relu else ACTIVE_ZERO,
        ),
    )


def _seen(keys: Tensor, number: int, visible: Tensor, by_row: bool, groups: Tensor) -> CSeen:
    """Keys and values of a layer, of which rows see those of their group where `visible` says so."""
    _, group, head, place, _ = keys.stride()
    assert (head, place) == (keys.shape[3] * keys.shape[4], keys.shape[4])
    assert visible.is_contiguous()
    assert groups.is_contiguous()
    pair = keys[2 * number].data_ptr(), keys[2 * number + 1].data_ptr()
    return CSeen(*pair, group, keys.shape[3], visible.data_ptr(), by_row, groups.data_ptr())


def _source(rows: Rows, source: Source, number: int) -> CSeen:
    return _seen(source.keys, number, source.visible, False, rows.sentences)


def _last(x: Tensor, norm: Norm | None) -> Tensor:
    """The LayerNorm at the end of pre-norm stacks."""
    return x if norm is None else F.layer_norm(x, x.shape[-1:], *norm)
