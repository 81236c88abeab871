"""The engine's arithmetic in ONNX Runtime: int8, where it is the fastest on most CPUs, or float32."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import onnxruntime
import torch
from torch import Tensor

from disco_mt.core.machine import exact_int8_levels
from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.engine.best_words import Block, Blocks, ReducedLogits, best_among, given_words
from disco_mt.engine.onnx_encoder import encoder_graph
from disco_mt.engine.onnx_graph import LOW, Graph
from disco_mt.engine.packed import AttentionWeights, Linear, PackedDisCo, pack
from disco_mt.engine.ragged import Groups
from disco_mt.engine.runtime import Rows, RunJobs, Source, run_in_turn
from disco_mt.engine.torch_runtime import TorchRuntime, place_keys
from disco_mt.nn.base import BestWords, join_best_words
from disco_mt.systems.disco.model import DisCo

_ROWS = 128  # rows per chunk of logits


class OnnxRuntime:
    """Flat rows through ONNX graphs."""

    def __init__(self, model: DisCo, precision: str, shares: int = 1) -> None:
        """shares: parts of the vocabulary that threads can compute at the same time."""
        weights = pack(model)
        config = model.config
        self.dtype = torch.float32
        self.longest_target = config.longest_target
        self.start = int(config.start_token)
        self.words = weights.words
        self.positions = weights.key_positions
        self.heads = config.decoder.heads
        self.size = config.width // self.heads

        def graph() -> Graph:
            return Graph(config, precision, exact_int8_levels())

        self.encoder = _session(encoder_graph(weights, graph()))
        self.keys = _session(keys_graph(weights, graph()))
        self.first = None if self.start else _session(first_graph(weights, graph()))
        queries = TorchRuntime(model).first_queries
        self.refinement = _session(refinement_graph(weights, graph(), queries))
        self.blocks = Blocks(model.output.weight.detach(), weights.output_bias)
        self.outputs = [
            _session(output_graph(weights, graph(), share)) for share in self.blocks.shares(shares)
        ]

    def encode(self, source: Tensor) -> Source:
        keys, visible, log_probs = _run(self.encoder, {"source": source})
        return Source(keys, visible, log_probs)

    def put_keys(self, tokens: Tensor, candidates: Tensor, slots: Tensor, into: Tensor) -> None:
        keys, *scale = _run(self.keys, {"vectors": self.words[tokens] + self.positions[slots]})
        place_keys(keys, scale[0] if scale else None, candidates, slots, into)

    def first_pass(self, rows: Rows, anchors: Tensor, source: Source) -> Tensor:
        inputs = {"places": rows.places, "candidates": rows.candidates, **_numbered("anchor", anchors[1::2])}
        return _run(self.first, inputs | self._cross(rows, source))[0]

    def later_pass(self, rows: Rows, visible: Tensor, keys: Tensor, source: Source) -> Tensor:
        groups = Groups.of(rows.candidates, keys.shape[1])
        inputs = {
            "places": rows.places,
            **_numbered("keys", keys),
            "bias": groups.padded(_bias(visible))[:, None],
            **self._layout(groups, len(rows.places), ""),
        }
        return _run(self.refinement, inputs | self._cross(rows, source))[0]

    def _cross(self, rows: Rows, source: Source) -> dict[str, Tensor]:
        groups = Groups.of(rows.sentences, len(source.visible))
        layout = self._layout(groups, len(rows.places), "source_")
        bias = _bias(source.visible)[:, None, None]
        return {**_numbered("source_keys", source.keys), "source_bias": bias, **layout}

    def _layout(self, groups: Groups, rows: int, prefix: str) -> dict[str, Tensor]:
        same = torch.arange(rows)
        return {
            f"{prefix}spread": same if groups.spread is None else groups.spread,
            f"{prefix}back": same if groups.places is None else groups.places,
            f"{prefix}shape": torch.tensor([groups.number, groups.widest, self.heads, self.size]),
        }

    def word_log_probs(self, hidden: Tensor, ids: Tensor) -> Tensor:
        return given_words(hidden, self.blocks.table, ids, self.blocks.bias)

    def best_words(
        self, hidden: Tensor, entries: Tensor | None, run_jobs: RunJobs = run_in_turn
    ) -> BestWords:
        if entries is not None:  # so few that float32 costs nothing
            return best_among(hidden, self.blocks.table, entries, self.blocks.bias)
        return join_best_words([self._best(chunk, run_jobs) for chunk in torch.split(hidden, _ROWS)])

    def _best(self, hidden: Tensor, run_jobs: RunJobs) -> BestWords:
        """Each share of the vocabulary is reduced separately: no two threads load the same weights."""
        reduced = run_jobs([partial(_run, output, {"hidden": hidden}) for output in self.outputs])
        tops, marks, sums, *scale = (list(parts) for parts in zip(*reduced, strict=True))
        logits = ReducedLogits(
            tops, torch.cat(marks, dim=1), torch.cat(sums, dim=1), scale[0][0] if scale else None
        )
        return self.blocks.best(hidden, logits)


def _session(graph: bytes) -> Any:
    """A session with one thread: split.py gives each of several threads its own rows or vocabulary."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    slower = ["BiasGeluFusion"]  # slower than the two operators it replaces
    return onnxruntime.InferenceSession(
        graph, options, providers=["CPUExecutionProvider"], disabled_optimizers=slower
    )


def _run(session: Any, inputs: dict[str, Tensor]) -> list[Tensor]:
    """Contiguous tensors are passed without a copy."""
    arrays = {name: tensor.contiguous().numpy() for name, tensor in inputs.items()}
    return [torch.from_numpy(result) for result in session.run(None, arrays)]


def _numbered(name: str, tensors: Tensor) -> dict[str, Tensor]:
    return {f"{name}_{number}": tensor for number, tensor in enumerate(tensors)}


def _bias(visible: Tensor) -> Tensor:
    """What is added to attention scores: 0 where visible, else a very low number."""
    return torch.zeros(visible.shape).masked_fill_(~visible, LOW)


def keys_graph(weights: PackedDisCo, graph: Graph) -> bytes:
    """vectors (n, width) -> keys and values of all layers side by side, (n, 2 * layers * width).

    In int8 they must still be multiplied by `scale` (n, 1).
    """
    vectors = graph.input("vectors", "float", ("n", weights.config.width))
    matrix = weights.target_keys
    shape = "n", matrix.shape[1]
    if graph.precision == "fp32":
        graph.output("keys", graph.product(vectors, matrix), "float", shape)
        return graph.model()
    quantized, scale = graph.quantize(vectors)
    graph.output("keys", graph.integer_product(quantized, matrix), "float", shape)
    graph.output("scale", scale, "float", ("n", 1))
    return graph.model()


def first_graph(weights: PackedDisCo, graph: Graph) -> bytes:
    """The first pass: every row sees only its candidate's EOS."""
    width = weights.config.width
    layers = weights.layers
    h = graph.rows(weights.query_positions, graph.input("places", "int64", ("rows",)))
    candidates = graph.input("candidates", "int64", ("rows",))
    anchors = [graph.input(f"anchor_{n}", "float", ("candidates", width)) for n in range(layers)]
    cross = _AttentionInputs(graph, layers, "source_", ("sentences", "src", 1))
    for number, layer in enumerate(weights.decoder):
        block = layer.attention
        out = graph.product(anchors[number], block.out.weight, rows="candidates")
        h = graph.leave(h, graph.op("Gather", out, candidates), block.out.bias, block.norm)
        h = cross.attend(h, graph.query(h, layer.cross), layer.cross, number)
        h = graph.feed_forward(h, layer.feed_forward)
    graph.output("hidden", graph.final_norm(h, weights.decoder_norm), "float", ("rows", width))
    return graph.model()


def refinement_graph(weights: PackedDisCo, graph: Graph, first_queries: Tensor) -> bytes:
    """A later pass: every row sees its own set of words."""
    places = graph.input("places", "int64", ("rows",))
    target = _AttentionInputs(graph, weights.layers, "", ("candidates", "tgt", "widest"))
    cross = _AttentionInputs(graph, weights.layers, "source_", ("sentences", "src", 1))
    h = graph.rows(weights.query_positions, places)
    for number, layer in enumerate(weights.decoder):
        block = layer.attention
        query = graph.rows(first_queries, places) if number == 0 else graph.query(h, block)
        h = target.attend(h, query, block, number)
        h = cross.attend(h, graph.query(h, layer.cross), layer.cross, number)
        h = graph.feed_forward(h, layer.feed_forward)
    hidden = graph.final_norm(h, weights.decoder_norm)
    graph.output("hidden", hidden, "float", ("rows", weights.config.width))
    return graph.model()


class _AttentionInputs:
    """Attention of flat rows to the keys of their group (ragged.py): inputs, and a block per layer."""

    def __init__(self, graph: Graph, layers: int, prefix: str, sizes: tuple[str, str, int | str]) -> None:
        """sizes: names of the numbers of groups, of keys per group, and of queries in the bias."""
        groups, length, queries = sizes
        heads = graph.config.decoder.heads
        keys_shape = (groups, heads, length, graph.config.width // heads)
        self.graph = graph
        self.keys = [graph.input(f"{prefix}keys_{n}", "float", keys_shape) for n in range(2 * layers)]
        self.bias = graph.input(f"{prefix}bias", "float", (groups, 1, queries, length))
        self.spread = graph.input(f"{prefix}spread", "int64", (f"{prefix}padded",))
        self.back = graph.input(f"{prefix}back", "int64", ("rows",))
        self.shape = graph.input(f"{prefix}shape", "int64", (4,))

    def attend(self, h: str, query: str, block: AttentionWeights, number: int) -> str:
        """Queries are padded to (groups, widest, heads, size), attend, and become flat rows again."""
        graph = self.graph
        padded = graph.op("Reshape", graph.op("Gather", query, self.spread), self.shape)
        pair = self.keys[2 * number], self.keys[2 * number + 1]
        mixed = graph.attend(graph.swap_heads(padded), *pair, self.bias)
        return graph.attention_output(h, graph.op("Gather", mixed, self.back), block)


def output_graph(weights: PackedDisCo, graph: Graph, blocks: Sequence[Block]) -> bytes:
    """hidden (rows, width) -> `ReducedLogits` of some blocks of the vocabulary, without keeping the logits.

    tops (rows, parts): the largest logit of each part of words;
    sums, marks (rows, blocks): sum of exp(logit - mark).
    In int8, tops and marks must still be multiplied by `scale` (rows, 1), if there is one.
    """
    hidden = graph.input("hidden", "float", ("rows", weights.config.width))
    quantized = scale = ""
    if graph.precision == "int8":
        graph.undo_norm(hidden, weights.decoder_norm or weights.decoder[-1].feed_forward.norm)
        if hidden not in graph.normalized and weights.output_bias is None:  # a bias is not scaled
            quantized, scale = graph.quantize(hidden)
    tops: list[str] = []
    marks: list[str] = []
    sums: list[str] = []
    for start, end, part in blocks:
        matrix = weights.output[:, start:end].contiguous()
        bias = None if weights.output_bias is None else weights.output_bias[start:end].contiguous()
        if hidden in graph.normalized:
            no_bias = matrix.new_zeros(matrix.shape[1])
            logits = graph.normalized_product(hidden, Linear(matrix, no_bias if bias is None else bias))
        elif bias is not None:
            logits = graph.op("Add", graph.product(hidden, matrix), graph.constant(bias))
        else:
            logits = graph.integer_product(quantized, matrix) if scale else graph.product(hidden, matrix)
        parts = graph.op("Reshape", logits, graph.integers(0, part, -1))
        top = graph.op("ReduceMax", parts, graph.integers(1), keepdims=0)
        mark = graph.op("ReduceMax", top, graph.integers(1), keepdims=1)
        difference = graph.op("Sub", logits, mark)
        difference = graph.op("Mul", difference, scale) if scale else difference
        if start >= NUM_SPECIAL:
            tops.append(top)
        marks.append(mark)
        sums.append(graph.op("ReduceSum", graph.op("Exp", difference), graph.integers(1), keepdims=1))
    for name, values in (("tops", tops), ("marks", marks), ("sums", sums)):
        graph.output(name, graph.concat(1, *values), "float", ("rows", f"{name}_number"))
    if scale:
        graph.output("scale", scale, "float", ("rows", 1))
    return graph.model()
