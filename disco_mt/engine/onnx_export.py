"""disco export --format onnx: encoder and decoder pass for any ONNX runtime, checked against torch.

Standard operators only, float32, every size dynamic. The algorithms (easy-first, mask-predict) are a loop
around the decoder pass: who sees whom is its input.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import Tensor

from disco_mt import context
from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory, write_text
from disco_mt.core.special_tokens import BOS, EOS, NUM_SPECIAL, PAD
from disco_mt.decoding.length_beam import candidates_at, predict
from disco_mt.engine.onnx_encoder import encoder_graph
from disco_mt.engine.onnx_graph import LOW, Graph
from disco_mt.engine.packed import DecoderLayerWeights, PackedDisCo, pack
from disco_mt.nn.base import TranslationModel
from disco_mt.systems.disco.model import DisCo
from disco_mt.text.pair import TextPair

FORMAT_VERSION = 2
ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
_TOLERANCE = 1e-3


def export_onnx(model: TranslationModel, text: TextPair, out: Path) -> None:
    """Write encoder.onnx, decoder.onnx, config.json and the tokenizers, after a check against the model."""
    if not isinstance(model, DisCo):
        kind = model.config.kind
        raise UserError(f"only disco models can be exported to ONNX, not {kind}; use --format ctranslate2")
    weights = pack(model)
    with atomic_directory(out) as directory:
        (directory / ENCODER).write_bytes(encoder_graph(weights, Graph(model.config, "fp32")))
        (directory / DECODER).write_bytes(decoder_graph(weights, Graph(model.config, "fp32")))
        config = {
            "format_version": FORMAT_VERSION,
            "model": asdict(model.config),
            "text": text.save(directory),
        }
        write_text(directory / "config.json", json.dumps(config, indent=2, ensure_ascii=False) + "\n")
        check(model, directory)


def decoder_graph(weights: PackedDisCo, graph: Graph) -> bytes:
    """One pass: tokens (batch, tgt), visible (batch, tgt, tgt), and the encoder's outputs, one row a target.

    -> ids and log_probs (batch, tgt): the likeliest word at every position. Those of EOS and padding mean
    nothing. Every row of `visible` must see something: EOS is always visible. A start token, in models that
    have one, is not among the tokens: the graph adds its key, and everyone sees it.
    """
    width, layers = weights.config.width, weights.layers
    tokens = graph.input("tokens", "int64", ("batch", "tgt"))
    visible = graph.input("visible", "bool", ("batch", "tgt", "tgt"))
    heads = weights.config.decoder.heads
    source_keys = graph.input("source_keys", "float", (2 * layers, "batch", heads, "src", width // heads))
    source_visible = graph.input("source_visible", "bool", ("batch", "src"))
    keyed = tokens
    if weights.config.start_token:
        keyed, visible = _with_start(graph, tokens, visible)
    biases = (
        graph.op("Unsqueeze", _bias(graph, visible), graph.integers(1)),  # (batch, 1, tgt, start and tgt)
        graph.op("Unsqueeze", _bias(graph, source_visible), graph.integers(1, 2)),  # (batch, 1, 1, src)
    )
    embedded, h = _embedded(weights, graph, keyed), _queries(weights, graph, tokens)
    keys = graph.product(graph.op("Reshape", embedded, graph.integers(-1, width)), weights.target_keys)
    shape, keys_shape = graph.op("Shape", h), graph.op("Shape", embedded)
    h = graph.op("Reshape", h, graph.integers(-1, width))
    for number, layer in enumerate(weights.decoder):
        own = tuple(
            graph.split(
                graph.op("Reshape", graph.cut(keys, place * width, (place + 1) * width, 1), keys_shape), heads
            )
            for place in (2 * number, 2 * number + 1)
        )
        theirs = tuple(
            graph.op("Gather", source_keys, graph.constant(np.array(place, np.int64)))
            for place in (2 * number, 2 * number + 1)
        )
        h = _layer(graph, layer, h, shape, ((*own, biases[0]), (*theirs, biases[1])))
    _best_words(weights, graph, graph.last(h, weights.decoder_norm), graph.op("Shape", tokens))
    return graph.model()


def _bias(graph: Graph, visible: str) -> str:
    return graph.op("Where", visible, graph.number(0.0), graph.number(LOW))


def _with_start(graph: Graph, tokens: str, visible: str) -> tuple[str, str]:
    """Tokens with the start token in front, (batch, 1 + tgt), which everyone sees, (batch, tgt, 1 + tgt)."""
    batch = graph.op("Gather", graph.op("Shape", tokens), graph.integers(0))
    one = graph.op("Concat", batch, graph.integers(1), attributes={"axis": 0})
    start = graph.op("Expand", graph.integers(BOS), one)
    column = graph.op("Unsqueeze", graph.op("Equal", tokens, tokens), graph.integers(2))  # always true
    return (
        graph.op("Concat", start, tokens, attributes={"axis": 1}),
        graph.op("Concat", column, visible, attributes={"axis": 2}),
    )


def _embedded(weights: PackedDisCo, graph: Graph, tokens: str) -> str:
    """What keys and values come from, w_n + p_n: (batch, start and tgt, width)."""
    return graph.op("Add", graph.rows(weights.words, tokens), _rows(graph, weights.key_positions, tokens))


def _queries(weights: PackedDisCo, graph: Graph, tokens: str) -> str:
    """Where the queries start, whatever the tokens are: (batch, tgt, width)."""
    shape = graph.op(
        "Concat", graph.op("Shape", tokens), graph.integers(weights.config.width), attributes={"axis": 0}
    )
    return graph.op("Expand", _rows(graph, weights.query_positions, tokens), shape)


def _rows(graph: Graph, table: Tensor, tokens: str) -> str:
    """As many rows of a table as there are tokens: (tokens, width)."""
    length = graph.op("Gather", graph.op("Shape", tokens), graph.constant(np.array(1, np.int64)))
    zero, one = (graph.constant(np.array(number, np.int64)) for number in range(2))
    return graph.rows(table, graph.op("Range", zero, length, one))


def _layer(
    graph: Graph, layer: DecoderLayerWeights, h: str, shape: str, sights: tuple[tuple[str, ...], ...]
) -> str:
    """One decoder layer. sights: (keys, values, bias) of the target and of the source."""
    for block, sight in zip((layer.attention, layer.cross), sights, strict=True):
        query = graph.op("Reshape", graph.query(h, block), shape)
        mixed = graph.attend(graph.split(query, graph.config.decoder.heads), *sight)
        h = graph.leave(h, graph.product(mixed, block.out.weight), block.out.bias, block.norm)
    return graph.feed_forward(h, layer.feed_forward)


def _best_words(weights: PackedDisCo, graph: Graph, hidden: str, shape: str) -> None:
    """Softmax over all entries, argmax over words."""
    logits = graph.product(hidden, weights.output)
    if weights.output_bias is not None:
        logits = graph.op("Add", logits, graph.constant(weights.output_bias))
    words = graph.cut(logits, NUM_SPECIAL, weights.output.shape[1], 1)
    best = graph.op("ReduceMax", words, graph.integers(1), attributes={"keepdims": 0})
    total = graph.op("ReduceLogSumExp", logits, graph.integers(1), attributes={"keepdims": 0})
    places = graph.op("ArgMax", words, attributes={"axis": 1, "keepdims": 0})
    ids = graph.op("Add", places, graph.constant(np.array(NUM_SPECIAL, np.int64)))
    graph.output("ids", graph.op("Reshape", ids, shape), "int64", ("batch", "tgt"))
    log_probs = graph.op("Reshape", graph.op("Sub", best, total), shape)
    graph.output("log_probs", log_probs, "float", ("batch", "tgt"))


@torch.inference_mode()
def check(model: DisCo, directory: Path) -> None:
    """Refuse an export that does not say what the model says, on two sentences of different lengths."""
    source, lengths = _example(model)
    encoded = model.encode(source)
    candidates = candidates_at(encoded, lengths, torch.zeros(lengths.shape))
    nothing = context.nothing(candidates.words, candidates.eos)
    tokens = predict(model, candidates, candidates.blank(), nothing).ids
    visible = context.left_to_right(candidates.words, candidates.eos)
    wanted = predict(model, candidates, tokens, visible).log_probs[candidates.words]
    read = _run(directory / ENCODER, {"source": source})
    ours = read.pop("length_log_probs")
    found = _run(directory / DECODER, {"tokens": tokens, "visible": visible, **read})
    assert encoded.length_log_probs is not None
    apart = max(
        _difference(ours[:, 1:], encoded.length_log_probs[:, 1:]),
        _difference(found["log_probs"][candidates.words], wanted),
    )
    if not apart < _TOLERANCE:
        raise UserError(f"the exported graphs differ from the model by {apart:.2g}; nothing was written")


def _example(model: DisCo) -> tuple[Tensor, Tensor]:
    """Two sources of different lengths, (2, src), and numbers of target words, (2, 1)."""
    longest = min(12, model.config.max_source - 1, model.config.longest_target)
    draw = torch.Generator().manual_seed(1)
    words = torch.randint(NUM_SPECIAL, model.config.source_vocabulary, (2, longest), generator=draw)
    source = torch.cat([words, torch.full((2, 1), EOS)], dim=1)
    source[1, longest // 2] = EOS
    source[1, longest // 2 + 1 :] = PAD
    return source, torch.tensor([[longest], [max(1, longest - 2)]])


def _run(file: Path, given: dict[str, Tensor]) -> dict[str, Tensor]:
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = session.run(names, {name: tensor.contiguous().numpy() for name, tensor in given.items()})
    return {name: torch.from_numpy(array) for name, array in zip(names, found, strict=True)}


def _difference(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).abs().max())
