"""The encoder as a graph: everything that is computed once a sentence."""

from __future__ import annotations

import numpy as np
import torch
from onnx import TensorProto
from torch import Tensor

from disco_mt.core.special_tokens import PAD
from disco_mt.engine.onnx_graph import LOW, Graph
from disco_mt.engine.packed import PackedDisCo
from disco_mt.nn.length import FURTHEST, PooledLength


def encoder_graph(weights: PackedDisCo, graph: Graph) -> bytes:
    """source (batch, src), ids with EOS, <pad> behind it -> what the decoder needs of it:

    source_keys (2 * layers, batch, heads, src, size): keys, values of layer 1, those of layer 2 ...;
    source_visible (batch, src): no padding; length_log_probs (batch, classes): a class is words + EOS.
    """
    width, classes = weights.config.width, weights.config.length_classes
    source = graph.input("source", "int64", ("batch", "src"))
    real = graph.op("Not", graph.op("Equal", source, graph.constant(np.array(PAD, np.int64))))
    x, visible = _embedded(weights, graph, source), real
    if weights.lengths is not None:
        x, visible = _with_slot(graph, weights.lengths, x, real)
    shape, x = graph.op("Shape", x), graph.op("Reshape", x, graph.integers(-1, width))
    bias = graph.op("Where", visible, graph.number(0.0), graph.number(LOW))
    bias = graph.op("Unsqueeze", bias, graph.integers(1, 2))  # (batch, 1, 1, slot and src)
    for layer in weights.encoder:
        block = layer.attention
        mixed = _self_attention(graph, graph.query(x, block), shape, bias)
        x = graph.leave(x, graph.product(mixed, block.out.weight), block.out.bias, block.norm)
        x = graph.feed_forward(x, layer.feed_forward)
    memory = graph.op("Reshape", graph.last(x, weights.encoder_norm), shape)
    heads = weights.config.decoder.heads
    keys_shape = (2 * weights.layers, "batch", heads, "src", width // heads)
    graph.output("source_keys", _source_keys(weights, graph, memory, source), "float", keys_shape)
    graph.output("source_visible", real, "bool", ("batch", "src"))
    lengths = _lengths(weights, graph, memory, real)
    graph.output("length_log_probs", lengths, "float", ("batch", classes))
    return graph.model()


def _embedded(weights: PackedDisCo, graph: Graph, source: str) -> str:
    """Word and position vectors."""
    length = graph.op("Gather", graph.op("Shape", source), graph.constant(np.array(1, np.int64)))
    zero, one = (graph.constant(np.array(number, np.int64)) for number in range(2))
    positions = graph.rows(weights.source_positions, graph.op("Range", zero, length, one))
    return graph.op("Add", graph.rows(weights.source_words, source), positions)


def _with_slot(graph: Graph, lengths: Tensor, x: str, real: str) -> tuple[str, str]:
    """Vectors behind the length slot, and who may be seen."""
    batch = graph.op("Gather", graph.op("Shape", real), graph.integers(0))
    slots = graph.op("Concat", batch, graph.integers(1, lengths.shape[1]), attributes={"axis": 0})
    slot = graph.op("Expand", graph.constant(lengths[:1].clone()[None]), slots)
    x = graph.op("Concat", slot, x, attributes={"axis": 1})
    front = graph.op("Concat", batch, graph.integers(1), attributes={"axis": 0})
    seen = graph.op("Expand", graph.constant(np.array([[True]])), front)
    return x, graph.op("Concat", seen, real, attributes={"axis": 1})


def _self_attention(graph: Graph, projected: str, shape: str, bias: str) -> str:
    """Queries, keys and values side by side, (batch * src, 3 * width) -> (batch * src, width)."""
    width = graph.config.width
    query, key, value = (
        graph.op("Reshape", graph.cut(projected, number * width, (number + 1) * width, 1), shape)
        for number in range(3)
    )
    heads = graph.config.encoder.heads
    return graph.attend(graph.split(query, heads), graph.split(key, heads), graph.split(value, heads), bias)


def _source_keys(weights: PackedDisCo, graph: Graph, memory: str, source: str) -> str:
    """(batch, slot and src, width) -> (2 * layers, batch, heads, src, size)."""
    width, heads = weights.config.width, weights.config.decoder.heads
    words = graph.cut(memory, weights.slots, 1 << 40, 1) if weights.slots else memory
    words = graph.op("Reshape", words, graph.integers(-1, width))
    projected = graph.product(words, weights.source_keys, rows="words")
    size = graph.op(
        "Concat",
        graph.op("Shape", source),
        graph.integers(2 * weights.layers, heads, width // heads),
        attributes={"axis": 0},
    )
    split = graph.op("Reshape", projected, size)
    return graph.op("Transpose", split, attributes={"perm": [2, 0, 3, 1, 4]})


def _lengths(weights: PackedDisCo, graph: Graph, memory: str, real: str) -> str:
    """The length predictor, in float32; a target without tokens cannot be."""
    prior = Prior(graph, real) if weights.config.length.prior else None
    if weights.lengths is not None:
        slot = graph.op("Squeeze", graph.cut(memory, 0, 1, 1), graph.integers(1))
        scores = graph.op("MatMul", slot, graph.constant(weights.lengths.T.contiguous()))
    else:
        assert weights.pooled is not None
        assert prior is not None
        scores = prior.at_shifts(_pooled_shifts(graph, weights.pooled, memory, prior))
    scores = scores if prior is None else graph.op("Add", scores, prior.scores())
    impossible = torch.zeros(weights.config.length_classes)
    impossible[0] = -torch.inf
    allowed = graph.op("Add", scores, graph.constant(impossible))
    return graph.op("LogSoftmax", allowed, attributes={"axis": 1})


def _pooled_shifts(graph: Graph, pooled: PooledLength, memory: str, prior: Prior) -> str:
    """The pooled predictor's scores of differences from the expected length: (batch, differences)."""
    real = graph.op("Unsqueeze", prior.real, graph.integers(2))
    total = graph.op(
        "ReduceSum", graph.op("Mul", memory, real), graph.integers(1), attributes={"keepdims": 0}
    )
    mean = graph.op("Div", total, prior.tokens)
    inside = graph.activation(graph.float_linear(mean, pooled.up))
    return graph.float_linear(inside, pooled.shift)


class Prior:
    """What the source's length says about the target's: nn/length.py as a graph."""

    def __init__(self, graph: Graph, real: str) -> None:
        """real: (batch, src) bool."""
        self.graph, self.length = graph, graph.config.length
        self.real = graph.op("Cast", real, attributes={"to": TensorProto.FLOAT})
        self.tokens = graph.op("ReduceSum", self.real, graph.integers(1), attributes={"keepdims": 1})
        self.classes = graph.constant(np.arange(graph.config.length_classes, dtype=np.float32))
        self.expected = self._line(self.length.slope, self.length.offset)

    def _line(self, slope: float, offset: float) -> str:
        """slope * source + offset: (batch, 1)."""
        rising = self.graph.op("Mul", self.tokens, self.graph.number(slope))
        return self.graph.op("Add", rising, self.graph.number(offset))

    def scores(self) -> str:
        """The prior itself: (batch, classes)."""
        graph = self.graph
        away = graph.op("Abs", graph.op("Sub", self.classes, self.expected))
        spread = self._line(self.length.spread_slope, self.length.spread)
        return graph.op("Neg", graph.op("Div", away, spread))

    def at_shifts(self, shifts: str) -> str:
        """Scores of the differences, (batch, differences), as scores of the lengths: (batch, classes)."""
        graph = self.graph
        away = graph.op("Sub", self.classes, graph.op("Round", self.expected))
        near = graph.op("Clip", away, graph.number(-FURTHEST), graph.number(FURTHEST))
        places = graph.op("Add", near, graph.number(FURTHEST))
        places = graph.op("Cast", places, attributes={"to": TensorProto.INT64})
        return graph.op("GatherElements", shifts, places, attributes={"axis": 1})
