"""The graphs of the incremental engine: what runtime.py asks for, one graph each."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.engine.best_words import Cut
from disco_mt.engine.onnx_graph import Graph
from disco_mt.engine.packed import AttentionWeights, Linear, PackedDisCo


def keys_graph(weights: PackedDisCo, graph: Graph) -> bytes:
    """vectors (n, width) -> keys and values of all layers side by side, (n, 2 * layers * width).

    In int8 they are in units of `scale` (n, 1).
    """
    vectors, matrix = graph.input("vectors", "float", ("n", weights.config.width)), weights.target_keys
    shape = "n", matrix.shape[1]
    if graph.precision == "fp32":
        graph.output("keys", graph.product(vectors, matrix), "float", shape)
        return graph.model()
    whole, scale = graph.rounded(vectors)
    graph.output("keys", graph.integer_product(whole, matrix), "float", shape)
    graph.output("scale", scale, "float", ("n", 1))
    return graph.model()


def first_graph(weights: PackedDisCo, graph: Graph) -> bytes:
    """The first pass: every row sees its candidate's EOS alone."""
    width, layers = weights.config.width, weights.layers
    h = graph.rows(weights.query_positions, graph.input("places", "int64", ("rows",)))
    candidates = graph.input("candidates", "int64", ("rows",))
    anchors = [graph.input(f"anchor_{n}", "float", ("candidates", width)) for n in range(layers)]
    cross = _CrossInputs(graph, layers)
    for number, layer in enumerate(weights.decoder):
        block = layer.attention
        out = graph.product(anchors[number], block.out.weight, rows="candidates")
        h = graph.leave(h, graph.op("Gather", out, candidates), block.out.bias, block.norm)
        h = cross.attend(h, layer.cross, number)
        h = graph.feed_forward(h, layer.feed_forward)
    graph.output("hidden", graph.last(h, weights.decoder_norm), "float", ("rows", width))
    return graph.model()


def refinement_graph(weights: PackedDisCo, graph: Graph, first_queries: Tensor) -> bytes:
    """A later pass: rows with their own visible words."""
    width, layers, (heads, size) = weights.config.width, weights.layers, _split(graph)
    places = graph.input("places", "int64", ("rows",))
    names = (f"keys_{number}" for number in range(2 * layers))
    keys = [graph.input(name, "float", ("candidates", heads, "tgt", size)) for name in names]
    bias = graph.input("bias", "float", ("candidates", 1, "widest", "tgt"))
    spread, back = (
        graph.input(name, "int64", (size,)) for name, size in (("spread", "padded"), ("back", "rows"))
    )
    cross = _CrossInputs(graph, layers)
    shape = graph.input("shape", "int64", (4,))
    h = graph.rows(weights.query_positions, places)
    for number, layer in enumerate(weights.decoder):
        block = layer.attention
        query = graph.rows(first_queries, places) if number == 0 else graph.query(h, block)
        pair = keys[2 * number], keys[2 * number + 1]
        mixed = _grouped(graph, query, pair, bias, (spread, back, shape))
        h = graph.leave(h, graph.product(mixed, block.out.weight), block.out.bias, block.norm)
        h = cross.attend(h, layer.cross, number)
        h = graph.feed_forward(h, layer.feed_forward)
    graph.output("hidden", graph.last(h, weights.decoder_norm), "float", ("rows", width))
    return graph.model()


class _CrossInputs:
    """Attention to the source: its inputs, and its block in each layer."""

    def __init__(self, graph: Graph, layers: int) -> None:
        self.graph, (heads, size) = graph, _split(graph)
        names = (f"source_keys_{number}" for number in range(2 * layers))
        self.keys = [graph.input(name, "float", ("sentences", heads, "src", size)) for name in names]
        self.bias = graph.input("source_bias", "float", ("sentences", 1, 1, "src"))
        self.layout = (
            graph.input("source_spread", "int64", ("source_padded",)),
            graph.input("source_back", "int64", ("rows",)),
            graph.input("source_shape", "int64", (4,)),
        )

    def attend(self, h: str, block: AttentionWeights, number: int) -> str:
        """One cross-attention block and its frame."""
        graph = self.graph
        pair = self.keys[2 * number], self.keys[2 * number + 1]
        mixed = _grouped(graph, graph.query(h, block), pair, self.bias, self.layout)
        return graph.leave(h, graph.product(mixed, block.out.weight), block.out.bias, block.norm)


def _grouped(graph: Graph, query: str, pair: tuple[str, str], bias: str, layout: tuple[str, str, str]) -> str:
    """Flat queries to their groups' keys and values: laid out (groups.py), attended, laid flat again."""
    spread, back, shape = layout
    laid = graph.op("Reshape", graph.op("Gather", query, spread), shape)  # (groups, widest, heads, size)
    return graph.op("Gather", graph.attend(graph.swapped(laid), *pair, bias), back)


def _split(graph: Graph) -> tuple[int, int]:
    """Heads, and the size of one."""
    heads = graph.config.decoder.heads
    return heads, graph.config.width // heads


def output_graph(weights: PackedDisCo, graph: Graph, cuts: Sequence[Cut]) -> bytes:
    """hidden (rows, width) -> what best_words.py needs of the logits, which are never whole.

    cuts: the blocks of this graph. tops (rows, parts): the largest logit of each part of words;
    sums, marks (rows, blocks): sum of exp(logit - mark).
    In int8 tops and marks are in units of `scale` (rows, 1), if there is one.
    """
    hidden = graph.input("hidden", "float", ("rows", weights.config.width))
    whole = scale = ""
    if graph.precision == "int8":
        graph.undo_norm(hidden, weights.decoder_norm or weights.decoder[-1].feed_forward.norm)
        if hidden not in graph.units and weights.output_bias is None:  # a bias has units of its own
            whole, scale = graph.rounded(hidden)
    tops: list[str] = []
    marks: list[str] = []
    sums: list[str] = []
    for start, end, part in cuts:
        matrix = weights.output[:, start:end].contiguous()
        bias = None if weights.output_bias is None else weights.output_bias[start:end].contiguous()
        if hidden in graph.units:
            nothing = matrix.new_zeros(matrix.shape[1])
            logits = graph.unit_product(hidden, Linear(matrix, nothing if bias is None else bias))
        elif bias is not None:
            logits = graph.op("Add", graph.product(hidden, matrix), graph.constant(bias))
        else:
            logits = graph.integer_product(whole, matrix) if scale else graph.product(hidden, matrix)
        folded = graph.op("Reshape", logits, graph.integers(0, part, -1))
        top = graph.op("ReduceMax", folded, graph.integers(1), attributes={"keepdims": 0})
        mark = graph.op("ReduceMax", top, graph.integers(1), attributes={"keepdims": 1})
        apart = graph.op("Sub", logits, mark)
        apart = graph.op("Mul", apart, scale) if scale else apart
        total = graph.op("ReduceSum", graph.op("Exp", apart), graph.integers(1), attributes={"keepdims": 1})
        if start >= NUM_SPECIAL:
            tops.append(top)
        marks.append(mark)
        sums.append(total)
    for name, values in (("tops", tops), ("marks", marks), ("sums", sums)):
        joined = graph.op("Concat", *values, attributes={"axis": 1})
        graph.output(name, joined, "float", ("rows", f"{name}_number"))
    if scale:
        graph.output("scale", scale, "float", ("rows", 1))
    return graph.model()
