"""The engine's arithmetic in compiled kernels (kernels.c): int8 on processors with AMX.

A matrix is quantized once, with one scale per column; the rows it is multiplied with are quantized as they
come, with one scale per row, so that no row depends on its batch mates. Sums are exact integers. Attention,
LayerNorm and residual sums stay in float32.
"""

from __future__ import annotations

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
    quantize,
    round_up,
)
from disco_mt.engine.packed import AttentionWeights, FeedForwardWeights, Linear, Norm, pack
from disco_mt.engine.quantization import ACTIVATION_ZERO, GELU_MINIMUM, ZERO
from disco_mt.engine.runtime import Rows, RunJobs, Source, run_in_turn
from disco_mt.engine.torch_runtime import slot_log_probs
from disco_mt.nn.base import BestWords
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.systems.disco.model import DisCo

_ACTIVATIONS = {"relu": 1, "gelu": 2}
_UNSUPPORTED = ("norm_epsilon", "scale_embeddings", "output_bias", "start_token", "query_word")
"""Options that the kernels do not support: a model must have their default values."""
_SHARE = 512  # the vocabulary is divided among threads in multiples of this


class NativeRuntime:
    """Flat rows through kernels.c."""

    def __init__(self, model: DisCo, shares: int = 1) -> None:
        """shares: parts of the vocabulary that threads can compute at the same time."""
        library = kernels()
        config = model.config
        if unsupported := not_in_kernels(config):
            raise UserError(
                f"the int8 kernels do not support {unsupported}; use ONNX Runtime's int8, which does: "
                "pip install 'disco-mt[onnx]'"
            )
        if library is None:
            raise RuntimeError("the kernels are not compiled, or this processor has no AMX")
        self.kernels: Any = library
        weights = pack(model)
        self.weights = weights
        self.dtype = torch.float32
        self.longest_target = config.longest_target
        self.start = 0
        assert weights.lengths is not None  # see not_in_kernels
        self.lengths = weights.lengths
        self.heads = config.decoder.heads
        self.size = config.width // self.heads
        self.shape = _shape(config, config.decoder)
        self.encoder_shape = _shape(config, config.encoder)
        self.kept: list[Any] = []  # tensors that the kernels have pointers to
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
            self._matrix(Linear(matrix, matrix.new_zeros(matrix.shape[1])))
            for matrix in (weights.source_keys, weights.target_keys, weights.output)
        )
        self.table = model.output.weight.detach()
        vocabulary = config.target_vocabulary
        step = round_up(-(-vocabulary // shares), _SHARE)
        self.shares = [(first, min(first + step, vocabulary)) for first in range(0, vocabulary, step)]
        self.columns = self._columns()

    def _columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """Layer, head and offset in the head of every 16th column of keys and values."""
        columns = torch.arange(0, self.target_keys.out, LANES)
        width = self.heads * self.size
        return columns // width, columns % width // self.size, columns % self.size

    def _matrix(self, linear: Linear, zero: int = ZERO) -> CMatrix:
        matrix, tensors = quantize(linear, zero)
        self.kept.append(tensors)
        return matrix

    def _norm(self, norm: Norm) -> CNorm:
        gain = norm.weight.detach().float().contiguous()
        shift = norm.bias.detach().float().contiguous()
        self.kept.append((gain, shift))
        return CNorm(gain.data_ptr(), shift.data_ptr())

    def _attention(self, block: AttentionWeights) -> CAttention:
        return CAttention(self._matrix(block.query), self._matrix(block.out), self._norm(block.norm))

    def _feed_forward(self, block: FeedForwardWeights) -> CFeedForward:
        down = self._matrix(block.down, self.shape.active_zero)
        return CFeedForward(self._matrix(block.up), down, self._norm(block.norm))

    def encode(self, source: Tensor) -> Source:
        real = source != PAD
        x = F.embedding(source, self.weights.source_words)
        x = x + self.weights.source_positions[: source.shape[1]]
        x = torch.cat([self.lengths[0].expand(len(x), 1, -1), x], dim=1)
        visible = F.pad(real, (1, 0), value=True)
        for attention, feed_forward in self.encoder:
            arguments = [byref(self.encoder_shape), pointer(x), c_int64(len(x)), c_int64(x.shape[1])]
            arguments += [pointer(visible), byref(attention), byref(feed_forward)]
            self.kernels.disco_encoder_layer(*arguments)
        x = _final_norm(x, self.weights.encoder_norm)
        keys = x.new_empty(2 * self.weights.layers, len(x), self.heads, source.shape[1], self.size)
        sentences, places = torch.ones_like(source).nonzero(as_tuple=True)
        self._project(x[:, 1:].flatten(0, 1), self.source_keys, sentences, places, keys)
        return Source(keys, real, slot_log_probs(x[:, 0] @ self.lengths.T))

    def put_keys(self, tokens: Tensor, candidates: Tensor, slots: Tensor, into: Tensor) -> None:
        vectors = self.weights.words[tokens] + self.weights.key_positions[slots]
        self._project(vectors, self.target_keys, candidates, slots, into)

    def _project(
        self, vectors: Tensor, matrix: CMatrix, groups: Tensor, places: Tensor, into: Tensor
    ) -> None:
        """Write the keys and values of vectors (n, width) in all layers to `into`.

        groups, places: (n,); into: (2 * layers, groups, heads, length, size).
        """
        layer, group, head, place, _ = into.stride()
        if self.size % LANES:  # then 16 columns may belong to two heads
            projected = vectors.new_empty(len(vectors), len(into), self.heads, self.size)
            self._product(vectors, matrix, projected, None, None)
            into[:, groups, :, places] = projected
            return
        layers, heads, offsets = self.columns
        columns = layers * layer + heads * head + offsets
        self._product(vectors, matrix, into, groups * group + places * place, columns)

    def _product(
        self, x: Tensor, matrix: CMatrix, into: Tensor, rows: Tensor | None, columns: Tensor | None
    ) -> None:
        """x @ matrix. rows, columns: offsets in `into` of each row, and of each 16 columns."""
        arguments = [byref(self.shape), pointer(x), c_int64(len(x)), byref(matrix), pointer(into)]
        arguments += [None if offsets is None else pointer(offsets) for offsets in (rows, columns)]
        self.kernels.disco_product(*arguments, c_int64(2 * self.weights.layers * self.heads * self.size))

    def first_pass(self, rows: Rows, anchors: Tensor, source: Source) -> Tensor:
        h = self.weights.key_positions[rows.places]
        values = anchors[1::2].contiguous()
        for number, (attention, cross, feed_forward) in enumerate(self.decoder):
            arguments = [byref(self.shape), pointer(h), c_int64(len(h)), byref(attention)]
            arguments += [pointer(values[number]), c_int64(values.shape[1]), pointer(rows.candidates)]
            arguments += [byref(cross), byref(_source(rows, source, number)), byref(feed_forward)]
            self.kernels.disco_first_layer(*arguments)
        return _final_norm(h, self.weights.decoder_norm)

    def later_pass(self, rows: Rows, visible: Tensor, keys: Tensor, source: Source) -> Tensor:
        h = self.weights.key_positions[rows.places]
        for number, (attention, cross, feed_forward) in enumerate(self.decoder):
            seen = _seen(keys, number, visible, True, rows.candidates)
            arguments = [byref(self.shape), pointer(h), c_int64(len(h)), byref(attention), byref(seen)]
            arguments += [byref(cross), byref(_source(rows, source, number)), byref(feed_forward)]
            self.kernels.disco_later_layer(*arguments)
        return _final_norm(h, self.weights.decoder_norm)

    def word_log_probs(self, hidden: Tensor, ids: Tensor) -> Tensor:
        return given_words(hidden, self.table, ids)

    def best_words(
        self, hidden: Tensor, entries: Tensor | None, run_jobs: RunJobs = run_in_turn
    ) -> BestWords:
        if entries is not None:  # so few that float32 costs nothing
            return best_among(hidden, self.table, entries)
        results = run_jobs([partial(self._best, hidden, *share) for share in self.shares])
        if len(results) == 1:
            ((tops, ids, totals),) = results
            return BestWords(ids, tops - totals)
        tops, ids, totals = (torch.stack(parts) for parts in zip(*results, strict=True))  # (shares, rows)
        best, winner = tops.max(dim=0, keepdim=True)
        return BestWords(ids.gather(0, winner)[0], best[0] - totals.logsumexp(dim=0))

    def _best(self, hidden: Tensor, first: int, last: int) -> tuple[Tensor, Tensor, Tensor]:
        """For entries `first` to `last`: the largest logit of a word, its id, and the logsumexp of all."""
        tops, marks, sums = hidden.new_empty(3, len(hidden))
        ids = torch.empty(len(hidden), dtype=torch.long)
        arguments = [byref(self.shape), pointer(hidden), c_int64(len(hidden)), byref(self.output)]
        arguments += [c_int64(first), c_int64(last), c_int64(NUM_SPECIAL)]
        arguments += [pointer(tops), pointer(ids), pointer(marks), pointer(sums)]
        self.kernels.disco_best(*arguments)
        return tops, ids, marks + sums.log()


def not_in_kernels(config: ModelConfig) -> str:
    """The options of a model that the kernels do not support; "" if they can run it."""
    defaults = ModelConfig()
    names = [name for name in _UNSUPPORTED if getattr(config, name) != getattr(defaults, name)]
    names += ["activation"] if config.activation not in _ACTIVATIONS else []
    names += ["positions"] if config.positions == "marian" else []
    unsupported = [f"{name} = {getattr(config, name)!r}" for name in names]
    length = config.length
    unsupported += [f"length.predictor = {length.predictor!r}"] if length.predictor != "slot" else []
    unsupported += ["length.prior = True"] if length.prior else []
    return ", ".join(unsupported)


def _shape(config: ModelConfig, stack: Stack) -> CShape:
    relu = config.activation == "relu"
    return CShape(
        width=config.width,
        heads=stack.heads,
        hidden=stack.hidden,
        pre=config.norm == "pre",
        activation=_ACTIVATIONS[config.activation],
        eps=config.norm_epsilon,
        active_least=0.0 if relu else GELU_MINIMUM / ACTIVATION_ZERO,
        zero=ZERO,
        active_zero=0 if relu else ACTIVATION_ZERO,
    )


def _seen(keys: Tensor, number: int, visible: Tensor, by_row: bool, groups: Tensor) -> CSeen:
    """Keys and values of a layer; rows see those of their group where `visible` is True."""
    _, group, head, place, _ = keys.stride()
    assert (head, place) == (keys.shape[3] * keys.shape[4], keys.shape[4])
    assert visible.is_contiguous()
    assert groups.is_contiguous()
    pair = keys[2 * number].data_ptr(), keys[2 * number + 1].data_ptr()
    return CSeen(*pair, group, keys.shape[3], visible.data_ptr(), by_row, groups.data_ptr())


def _source(rows: Rows, source: Source, number: int) -> CSeen:
    return _seen(source.keys, number, source.visible, False, rows.sentences)


def _final_norm(x: Tensor, norm: Norm | None) -> Tensor:
    """The LayerNorm at the end of pre-norm stacks."""
    return x if norm is None else F.layer_norm(x, x.shape[-1:], *norm)
