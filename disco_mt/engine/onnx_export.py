"""disco export --format onnx: encoder and decoder pass for any ONNX runtime, checked against torch.

Standard operators only, float32, every size dynamic. Algorithms such as easy-first and mask-predict are loops
around the decoder pass, which takes the visibility mask as an input.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import onnxruntime
import torch
from torch import Tensor

from disco_mt import context
from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory, write_text
from disco_mt.core.special_tokens import BOS, NUM_SPECIAL
from disco_mt.decoding.batching import with_eos
from disco_mt.decoding.length_beam import candidates_at, predict
from disco_mt.engine.onnx_encoder import encoder_graph
from disco_mt.engine.onnx_graph import Graph
from disco_mt.engine.packed import AttentionWeights, PackedDisCo, pack
from disco_mt.nn.base import TranslationModel
from disco_mt.systems.disco.model import DisCo
from disco_mt.text.pair import TextPair

FORMAT_VERSION = 2
ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
_TOLERANCE = 1e-3


def export_onnx(model: TranslationModel, text: TextPair, out: Path) -> None:
    """Write encoder.onnx, decoder.onnx, config.json and the tokenizers; their results are checked first."""
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
    """One pass: tokens (batch, tgt), visible (batch, tgt, tgt), the encoder's outputs, one row per target.

    -> ids and log_probs (batch, tgt): the most likely word at every position, meaningless at EOS and padding.
    Every row of `visible` must see something: EOS is always visible. In models with a start token, it is not
    among `tokens`: the graph adds its key, which every position sees.
    """
    width = weights.config.width
    heads = weights.config.decoder.heads
    tokens = graph.input("tokens", "int64", ("batch", "tgt"))
    visible = graph.input("visible", "bool", ("batch", "tgt", "tgt"))
    keys_shape = (2 * weights.layers, "batch", heads, "src", width // heads)
    source_keys = graph.input("source_keys", "float", keys_shape)
    source_visible = graph.input("source_visible", "bool", ("batch", "src"))
    with_keys = tokens
    if weights.config.start_token:
        with_keys, visible = _with_start(graph, tokens, visible)
    bias = graph.attention_bias(visible, 1)  # (batch, 1, tgt, start and tgt)
    source_bias = graph.attention_bias(source_visible, 1, 2)  # (batch, 1, 1, src)
    embedded = graph.op(
        "Add", graph.rows(weights.words, with_keys), graph.first_rows(weights.key_positions, with_keys)
    )
    h = _queries(weights, graph, tokens)
    keys = graph.product(graph.op("Reshape", embedded, graph.integers(-1, width)), weights.target_keys)
    shape = graph.op("Shape", h)
    target_shape = graph.op("Shape", embedded)
    h = graph.op("Reshape", h, graph.integers(-1, width))
    for number, layer in enumerate(weights.decoder):
        pair = (2 * number, 2 * number + 1)
        columns = [graph.slice(keys, place * width, (place + 1) * width, 1) for place in pair]
        target = [graph.split_heads(graph.op("Reshape", part, target_shape), heads) for part in columns]
        source = [graph.op("Gather", source_keys, graph.integer(place)) for place in pair]
        h = _attention(graph, layer.attention, h, shape, (*target, bias))
        h = _attention(graph, layer.cross, h, shape, (*source, source_bias))
        h = graph.feed_forward(h, layer.feed_forward)
    _best_words(weights, graph, graph.final_norm(h, weights.decoder_norm), graph.op("Shape", tokens))
    return graph.model()


def _with_start(graph: Graph, tokens: str, visible: str) -> tuple[str, str]:
    """Tokens with the start token in front, (batch, 1 + tgt), which all see, (batch, tgt, 1 + tgt)."""
    batch = graph.op("Gather", graph.op("Shape", tokens), graph.integers(0))
    start = graph.op("Expand", graph.integers(BOS), graph.concat(0, batch, graph.integers(1)))
    column = graph.op("Unsqueeze", graph.op("Equal", tokens, tokens), graph.integers(2))  # always true
    return graph.concat(1, start, tokens), graph.concat(2, column, visible)


def _queries(weights: PackedDisCo, graph: Graph, tokens: str) -> str:
    """The initial queries, which do not depend on the tokens: (batch, tgt, width)."""
    shape = graph.concat(0, graph.op("Shape", tokens), graph.integers(weights.config.width))
    return graph.op("Expand", graph.first_rows(weights.query_positions, tokens), shape)


def _attention(
    graph: Graph, block: AttentionWeights, h: str, shape: str, keys_values_bias: tuple[str, ...]
) -> str:
    query = graph.op("Reshape", graph.query(h, block), shape)
    mixed = graph.attend(graph.split_heads(query, graph.config.decoder.heads), *keys_values_bias)
    return graph.attention_output(h, mixed, block)


def _best_words(weights: PackedDisCo, graph: Graph, hidden: str, shape: str) -> None:
    """Softmax over the whole vocabulary, argmax over words."""
    logits = graph.product(hidden, weights.output)
    if weights.output_bias is not None:
        logits = graph.op("Add", logits, graph.constant(weights.output_bias))
    words = graph.slice(logits, NUM_SPECIAL, weights.output.shape[1], 1)
    best = graph.op("ReduceMax", words, graph.integers(1), keepdims=0)
    total = graph.op("ReduceLogSumExp", logits, graph.integers(1), keepdims=0)
    places = graph.op("ArgMax", words, axis=1, keepdims=0)
    ids = graph.op("Add", places, graph.integer(NUM_SPECIAL))
    graph.output("ids", graph.op("Reshape", ids, shape), "int64", ("batch", "tgt"))
    log_probs = graph.op("Reshape", graph.op("Sub", best, total), shape)
    graph.output("log_probs", log_probs, "float", ("batch", "tgt"))


@torch.inference_mode()
def check(model: DisCo, directory: Path) -> None:
    """Raise an error if the export differs from the model, on two sentences of different lengths."""
    source, lengths = _example(model)
    encoded = model.encode(source)
    candidates = candidates_at(encoded, lengths, torch.zeros(lengths.shape))
    nothing = context.nothing(candidates.words, candidates.eos)
    tokens = predict(model, candidates, candidates.blank(), nothing).ids
    visible = context.left_to_right(candidates.words, candidates.eos)
    log_probs = predict(model, candidates, tokens, visible).log_probs
    exported = _run(directory / ENCODER, {"source": source})
    length_log_probs = exported.pop("length_log_probs")
    decoded = _run(directory / DECODER, {"tokens": tokens, "visible": visible, **exported})
    assert encoded.length_log_probs is not None
    difference = max(
        _difference(length_log_probs[:, 1:], encoded.length_log_probs[:, 1:]),
        _difference(decoded["log_probs"][candidates.words], log_probs[candidates.words]),
    )
    if not difference < _TOLERANCE:
        raise UserError(f"the exported graphs differ from the model by {difference:.2g}; nothing was written")


def _example(model: DisCo) -> tuple[Tensor, Tensor]:
    """Two sources of different lengths, (2, src), and numbers of target words, (2, 1)."""
    longest = min(12, model.config.max_source - 1, model.config.longest_target)
    generator = torch.Generator().manual_seed(1)
    words = torch.randint(NUM_SPECIAL, model.config.source_vocabulary, (2, longest), generator=generator)
    shorter = words[1, : longest // 2]
    source = with_eos([words[0].tolist(), shorter.tolist()])
    return source, torch.tensor([[longest], [max(1, longest - 2)]])


def _run(file: Path, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    arrays = session.run(names, {name: tensor.contiguous().numpy() for name, tensor in inputs.items()})
    return {name: torch.from_numpy(array) for name, array in zip(names, arrays, strict=True)}


def _difference(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).abs().max())
