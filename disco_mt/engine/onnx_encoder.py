"""The encoder as a graph: everything that is computed once a sentence."""

from __future__ import annotations

import numpy as np
import torch

from disco_mt.engine.onnx_graph import LOW, Graph
from disco_mt.engine.packed import PackedDisCo
from disco_mt.special import PAD


def encoder_graph(weights: PackedDisCo, graph: Graph) -> bytes:
    """source (batch, src), ids with EOS, <pad> behind it -> what the decoder needs of it:

    source_keys (2 * layers, batch, heads, src, size): keys, values of layer 1, those of layer 2 ...;
    source_visible (batch, src): no padding; length_log_probs (batch, classes): a class is words + EOS.
    """
    width, classes = weights.config.width, len(weights.lengths)
    source = graph.input("source", "int64", ("batch", "src"))
    real = graph.op("Not", graph.op("Equal", source, graph.constant(np.array(PAD, np.int64))))
    x, visible = _with_slot(weights, graph, source, real)
    shape, x = graph.op("Shape", x), graph.op("Reshape", x, graph.integers(-1, width))
    bias = graph.op("Where", visible, graph.number(0.0), graph.number(LOW))
    bias = graph.op("Unsqueeze", bias, graph.integers(1, 2))  # (batch, 1, 1, slot + src)
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
    graph.output("length_log_probs", _lengths(weights, graph, memory), "float", ("batch", classes))
    return graph.model()


def _with_slot(weights: PackedDisCo, graph: Graph, source: str, real: str) -> tuple[str, str]:
    """Word and position vectors behind the length slot, and who may be seen."""
    size = graph.op("Shape", source)
    batch, length = (graph.op("Gather", size, graph.integers(axis)) for axis in range(2))
    zero, one = (graph.constant(np.array(number, np.int64)) for number in range(2))
    places = graph.op("Range", zero, graph.op("Squeeze", length), one)
    words, positions = graph.rows(weights.source_words, source), graph.rows(weights.source_positions, places)
    slots = graph.op("Concat", batch, graph.integers(1, weights.config.width), attributes={"axis": 0})
    slot = graph.op("Expand", graph.constant(weights.lengths[:1].clone()[None]), slots)
    x = graph.op("Concat", slot, graph.op("Add", words, positions), attributes={"axis": 1})
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
    """(batch, slot + src, width) -> (2 * layers, batch, heads, src, size)."""
    width, heads = weights.config.width, weights.config.decoder.heads
    words = graph.op("Reshape", graph.cut(memory, 1, 1 << 40, 1), graph.integers(-1, width))
    projected = graph.product(words, weights.source_keys, rows="words")
    size = graph.op(
        "Concat",
        graph.op("Shape", source),
        graph.integers(2 * weights.layers, heads, width // heads),
        attributes={"axis": 0},
    )
    split = graph.op("Reshape", projected, size)
    return graph.op("Transpose", split, attributes={"perm": [2, 0, 3, 1, 4]})


def _lengths(weights: PackedDisCo, graph: Graph, memory: str) -> str:
    """The length predictor: the slot against its table; a target without tokens cannot be."""
    slot = graph.op("Squeeze", graph.cut(memory, 0, 1, 1), graph.integers(1))
    scores = graph.op("MatMul", slot, graph.constant(weights.lengths.T.contiguous()))
    impossible = torch.zeros(len(weights.lengths))
    impossible[0] = -torch.inf
    allowed = graph.op("Add", scores, graph.constant(impossible))
    return graph.op("LogSoftmax", allowed, attributes={"axis": 1})
