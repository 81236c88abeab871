"""The encoder as an ONNX graph: everything that is computed once per sentence."""

from __future__ import annotations

import numpy as np
import torch
from onnx import TensorProto
from torch import Tensor

from disco_mt.core.special_tokens import PAD
from disco_mt.engine.onnx_graph import Graph
from disco_mt.engine.packed import PackedDisCo
from disco_mt.nn.length import FURTHEST, PooledLength


def encoder_graph(weights: PackedDisCo, graph: Graph) -> bytes:
    """source (batch, src), ids with EOS and <pad> after it -> everything the decoder needs:

    source_keys (2 * layers, batch, heads, src, size): keys, values of layer 1, those of layer 2 ...;
    source_visible (batch, src): no padding; length_log_probs (batch, classes): class n is n tokens with EOS.
    """
    width = weights.config.width
    source = graph.input("source", "int64", ("batch", "src"))
    real = graph.op("Not", graph.op("Equal", source, graph.integer(PAD)))
    words = graph.rows(weights.source_words, source)
    x = graph.op("Add", words, graph.first_rows(weights.source_positions, source))
    visible = real
    if weights.lengths is not None:
        x, visible = _with_slot(graph, weights.lengths, x, real)
    shape = graph.op("Shape", x)
    x = graph.op("Reshape", x, graph.integers(-1, width))
    bias = graph.attention_bias(visible, 1, 2)  # (batch, 1, 1, slot and src)
    for layer in weights.encoder:
        mixed = _self_attention(graph, graph.query(x, layer.attention), shape, bias)
        x = graph.attention_output(x, mixed, layer.attention)
        x = graph.feed_forward(x, layer.feed_forward)
    memory = graph.op("Reshape", graph.final_norm(x, weights.encoder_norm), shape)
    heads = weights.config.decoder.heads
    keys_shape = (2 * weights.layers, "batch", heads, "src", width // heads)
    graph.output("source_keys", _source_keys(weights, graph, memory, source), "float", keys_shape)
    graph.output("source_visible", real, "bool", ("batch", "src"))
    lengths = _lengths(weights, graph, memory, real)
    graph.output("length_log_probs", lengths, "float", ("batch", weights.config.length_classes))
    return graph.model()


def _with_slot(graph: Graph, lengths: Tensor, x: str, real: str) -> tuple[str, str]:
    """Input vectors and visibility with the length slot in front."""
    batch = graph.op("Gather", graph.op("Shape", real), graph.integers(0))
    slot_shape = graph.concat(0, batch, graph.integers(1, lengths.shape[1]))
    slot = graph.op("Expand", graph.constant(lengths[:1].clone()[None]), slot_shape)
    column_shape = graph.concat(0, batch, graph.integers(1))
    column = graph.op("Expand", graph.constant(np.array([[True]])), column_shape)
    return graph.concat(1, slot, x), graph.concat(1, column, real)


def _self_attention(graph: Graph, projected: str, shape: str, bias: str) -> str:
    """Queries, keys and values side by side, (batch * src, 3 * width) -> (batch * src, width)."""
    width = graph.config.width
    heads = graph.config.encoder.heads
    query, key, value = (
        graph.split_heads(
            graph.op("Reshape", graph.slice(projected, number * width, (number + 1) * width, 1), shape), heads
        )
        for number in range(3)
    )
    return graph.attend(query, key, value, bias)


def _source_keys(weights: PackedDisCo, graph: Graph, memory: str, source: str) -> str:
    """(batch, slot and src, width) -> (2 * layers, batch, heads, src, size)."""
    width = weights.config.width
    heads = weights.config.decoder.heads
    words = graph.slice(memory, weights.slots, 1 << 40, 1) if weights.slots else memory
    words = graph.op("Reshape", words, graph.integers(-1, width))
    projected = graph.product(words, weights.source_keys, rows="words")
    sizes = graph.integers(2 * weights.layers, heads, width // heads)
    split = graph.op("Reshape", projected, graph.concat(0, graph.op("Shape", source), sizes))
    return graph.op("Transpose", split, perm=[2, 0, 3, 1, 4])


def _lengths(weights: PackedDisCo, graph: Graph, memory: str, real: str) -> str:
    """The length predictor, in float32; length 0 is impossible."""
    prior = _Prior(graph, real) if weights.config.length.prior else None
    if weights.lengths is not None:
        slot = graph.op("Squeeze", graph.slice(memory, 0, 1, 1), graph.integers(1))
        scores = graph.op("MatMul", slot, graph.constant(weights.lengths.T.contiguous()))
    else:
        assert weights.pooled is not None
        assert prior is not None
        scores = prior.at_shifts(_pooled_shifts(graph, weights.pooled, memory, prior))
    if prior is not None:
        scores = graph.op("Add", scores, prior.scores())
    impossible = torch.zeros(weights.config.length_classes)
    impossible[0] = -torch.inf
    return graph.op("LogSoftmax", graph.op("Add", scores, graph.constant(impossible)), axis=1)


def _pooled_shifts(graph: Graph, pooled: PooledLength, memory: str, prior: _Prior) -> str:
    """The pooled predictor's scores of differences from the expected length: (batch, differences)."""
    real = graph.op("Unsqueeze", prior.real, graph.integers(2))
    total = graph.op("ReduceSum", graph.op("Mul", memory, real), graph.integers(1), keepdims=0)
    mean = graph.op("Div", total, prior.tokens)
    hidden = graph.activation(graph.float_linear(mean, pooled.up))
    return graph.float_linear(hidden, pooled.shift)


class _Prior:
    """What the source length alone says about the target length: nn/length.py as a graph."""

    def __init__(self, graph: Graph, real: str) -> None:
        """real: (batch, src) bool."""
        self.graph = graph
        self.length = graph.config.length
        self.real = graph.op("Cast", real, to=TensorProto.FLOAT)
        self.tokens = graph.op("ReduceSum", self.real, graph.integers(1), keepdims=1)
        self.classes = graph.constant(np.arange(graph.config.length_classes, dtype=np.float32))
        self.expected = self._line(self.length.slope, self.length.offset)

    def _line(self, slope: float, offset: float) -> str:
        """slope * source + offset: (batch, 1)."""
        product = self.graph.op("Mul", self.tokens, self.graph.number(slope))
        return self.graph.op("Add", product, self.graph.number(offset))

    def scores(self) -> str:
        """The prior itself: (batch, classes)."""
        graph = self.graph
        distance = graph.op("Abs", graph.op("Sub", self.classes, self.expected))
        spread = self._line(self.length.spread_slope, self.length.spread)
        return graph.op("Neg", graph.op("Div", distance, spread))

    def at_shifts(self, shifts: str) -> str:
        """Scores of the differences, (batch, differences), as scores of the lengths: (batch, classes)."""
        graph = self.graph
        difference = graph.op("Sub", self.classes, graph.op("Round", self.expected))
        clipped = graph.op("Clip", difference, graph.number(-FURTHEST), graph.number(FURTHEST))
        places = graph.op("Add", clipped, graph.number(FURTHEST))
        return graph.op("GatherElements", shifts, graph.op("Cast", places, to=TensorProto.INT64), axis=1)
