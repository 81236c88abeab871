"""The engine's arithmetic in ONNX Runtime: int8, for which it is the fastest on a CPU, or float32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import onnxruntime
import torch
from torch import Tensor

from disco_mt.core.machine import exact_int8_levels
from disco_mt.engine.best_words import Blocks, best_among, given_words
from disco_mt.engine.onnx_encoder import encoder_graph
from disco_mt.engine.onnx_graph import LOW, Graph
from disco_mt.engine.onnx_passes import first_graph, keys_graph, output_graph, refinement_graph
from disco_mt.engine.packed import pack
from disco_mt.engine.ragged import Groups
from disco_mt.engine.runtime import Rows, Source, one_after_another
from disco_mt.engine.torch_runtime import TorchRuntime, place_keys
from disco_mt.nn.base import BestWords
from disco_mt.systems.disco.model import DisCo

_ROWS = 128  # rows whose logits are held at a time


class OnnxRuntime:
    """Flat rows through ONNX graphs."""

    def __init__(self, model: DisCo, precision: str, shares: int = 1) -> None:
        """shares: of the vocabulary, which threads can take at the same time."""
        weights, levels = pack(model), exact_int8_levels()
        self.dtype, self.longest_target = torch.float32, model.config.longest_target
        self.start = int(model.config.start_token)
        self.words, self.positions = weights.words, weights.key_positions
        self.heads, self.size = model.config.decoder.heads, model.config.width // model.config.decoder.heads

        def graph() -> Graph:
            return Graph(model.config, precision, levels)

        self.encoder = _session(encoder_graph(weights, graph()))
        self.keys = _session(keys_graph(weights, graph()))
        self.first = None if self.start else _session(first_graph(weights, graph()))
        queries = TorchRuntime(model).first_queries
        self.refinement = _session(refinement_graph(weights, graph(), queries))
        self.blocks, self.table = Blocks(model.config.target_vocabulary), model.output.weight.detach()
        self.bias = weights.output_bias
        cuts = self.blocks.shares(shares)
        self.outputs = [_session(output_graph(weights, graph(), share)) for share in cuts]

    def encode(self, source: Tensor) -> Source:
        """See Runtime."""
        keys, visible, log_probs = _run(self.encoder, {"source": source})
        return Source(keys, visible, log_probs)

    def put_keys(self, tokens: Tensor, candidates: Tensor, slots: Tensor, into: Tensor) -> None:
        """See Runtime."""
        keys, *scale = _run(self.keys, {"vectors": self.words[tokens] + self.positions[slots]})
        place_keys(keys, scale[0] if scale else None, candidates, slots, into)

    def first_pass(self, rows: Rows, anchors: Tensor, source: Source) -> Tensor:
        """See Runtime."""
        given = {"places": rows.places, "candidates": rows.candidates, **_numbered("anchor", anchors[1::2])}
        return _run(self.first, given | self._cross(rows, source))[0]

    def later_pass(self, rows: Rows, visible: Tensor, keys: Tensor, source: Source) -> Tensor:
        """See Runtime."""
        groups = Groups.of(rows.candidates, keys.shape[1])
        given = {
            "places": rows.places,
            **_numbered("keys", keys),
            "bias": groups.padded(_bias(visible))[:, None],
            **self._layout(groups, len(rows.places), ""),
        }
        return _run(self.refinement, given | self._cross(rows, source))[0]

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
        """See Runtime."""
        return given_words(hidden, self.table, ids, self.bias)

    def best_words(
        self, hidden: Tensor, entries: Tensor | None, together: Callable[..., list[Any]] = one_after_another
    ) -> BestWords:
        """See Runtime."""
        if entries is not None:  # so few that float32 costs nothing
            return best_among(hidden, self.table, entries, self.bias)
        parts = [self._best(chunk, together) for chunk in torch.split(hidden, _ROWS)]
        return BestWords(torch.cat([ids for ids, _ in parts]), torch.cat([logs for _, logs in parts]))

    def _best(self, hidden: Tensor, together: Callable[..., list[Any]]) -> BestWords:
        """Each share of the vocabulary is reduced by itself: what a thread reads, no other does."""
        given = {"hidden": hidden}
        reduced = together([partial(_run, output, given) for output in self.outputs])
        tops, marks, sums, *scale = (list(parts) for parts in zip(*reduced, strict=True))
        whole = torch.cat(marks, dim=1), torch.cat(sums, dim=1)
        return self.blocks.best(hidden, self.table, tops, *whole, scale[0][0] if scale else None, self.bias)


def _session(graph: bytes) -> Any:
    """One thread: who wants more gives each its rows or its part of the vocabulary (split.py)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    slower = ["BiasGeluFusion"]  # than the two operators that it makes one of
    return onnxruntime.InferenceSession(
        graph, options, providers=["CPUExecutionProvider"], disabled_optimizers=slower
    )


def _run(session: Any, given: dict[str, Tensor]) -> list[Tensor]:
    """The results. Tensors are lent, not copied, if they lie in one piece."""
    feed = {name: tensor.contiguous().numpy() for name, tensor in given.items()}
    return [torch.from_numpy(result) for result in session.run(None, feed)]


def _numbered(name: str, tensors: Tensor) -> dict[str, Tensor]:
    return {f"{name}_{number}": tensor for number, tensor in enumerate(tensors)}


def _bias(visible: Tensor) -> Tensor:
    """0 where visible, else so low that nothing is left of it."""
    return torch.zeros(visible.shape).masked_fill_(~visible, LOW)
