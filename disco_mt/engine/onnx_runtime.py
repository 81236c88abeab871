"""The engine's arithmetic in ONNX Runtime: int8, for which it is the fastest on a CPU, or float32."""

from __future__ import annotations

from typing import Any

import onnxruntime
import torch
from torch import Tensor

from disco_mt.engine.best_words import Blocks
from disco_mt.engine.groups import Groups
from disco_mt.engine.onnx_graph import Graph
from disco_mt.engine.onnx_passes import encoder_graph, first_graph, keys_graph, output_graph, refinement_graph
from disco_mt.engine.packed import pack
from disco_mt.engine.runtime import Rows, Source
from disco_mt.engine.torch_runtime import TorchRuntime, length_log_probs
from disco_mt.machine import exact_int8_levels
from disco_mt.models.base import BestWords
from disco_mt.models.disco import DisCo
from disco_mt.special import PAD

_ROWS = 128  # rows whose logits are held at a time


class OnnxRuntime:
    """Flat rows through ONNX graphs."""

    def __init__(self, model: DisCo, precision: str, threads: int) -> None:
        weights, levels = pack(model), exact_int8_levels()
        self.dtype, self.longest_target, self.width = (
            torch.float32,
            model.config.longest_target,
            model.config.width,
        )
        self.words, self.positions = weights.words, weights.positions
        self.lengths, self.layers = weights.lengths, weights.layers

        def graph() -> Graph:
            return Graph(model.config, precision, levels)

        self.encoder = _session(encoder_graph(weights, graph()), threads)
        self.source_session = _session(keys_graph(weights, graph(), "source"), threads)
        self.target_session = _session(keys_graph(weights, graph(), "target"), threads)
        self.source_bias, self.target_bias = weights.source_keys.bias, weights.target_keys.bias
        self.first = _session(first_graph(weights, graph()), threads)
        queries = TorchRuntime(model).first_queries
        self.refinement = _session(refinement_graph(weights, graph(), queries), threads)
        self.blocks, self.table = Blocks(model.config.target_vocabulary), model.output.weight.detach()
        self.output = _session(output_graph(weights, graph(), self.blocks), threads)

    def encode(self, source: Tensor) -> Source:
        """See Runtime."""
        real = source != PAD
        batch, size = source.shape
        visible = torch.cat([real.new_ones(batch, 1), real], dim=1)
        given = {
            "source": source,
            "places": torch.arange(size),
            "slots": self.lengths[0].expand(batch, 1, -1),
            "bias": _bias(visible)[:, None, None],
        }
        (memory,) = _run(self.encoder, given)
        flat = memory[:, 1:].reshape(-1, self.width)
        keys = self._keys(self.source_session, flat, self.source_bias).contiguous()
        return Source(
            keys.view(len(keys), batch, size, -1), real, length_log_probs(memory[:, 0], self.lengths)
        )

    def target_keys(self, tokens: Tensor, places: Tensor) -> Tensor:
        """See Runtime."""
        return self._keys(self.target_session, self.words[tokens] + self.positions[places], self.target_bias)

    def first_pass(self, rows: Rows, anchors: Tensor, source: Source) -> BestWords:
        """See Runtime."""
        given = {"places": rows.places, "candidates": rows.candidates, **_numbered("anchor", anchors[1::2])}
        return self._best(_run(self.first, given | self._cross(rows, source))[0])

    def predict(self, rows: Rows, visible: Tensor, keys: Tensor, source: Source) -> BestWords:
        """See Runtime."""
        groups = Groups.of(rows.candidates, keys.shape[1])
        given = {
            "places": rows.places,
            **_numbered("keys", keys),
            "bias": groups.padded(_bias(visible))[:, None],
            **self._layout(groups, len(rows.places), ""),
        }
        return self._best(_run(self.refinement, given | self._cross(rows, source))[0])

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
            f"{prefix}shape": torch.tensor([groups.number, groups.widest, self.width]),
        }

    def _best(self, hidden: Tensor) -> BestWords:
        parts = [self._best_of(rows) for rows in torch.split(hidden, _ROWS)]
        return BestWords(torch.cat([ids for ids, _ in parts]), torch.cat([logs for _, logs in parts]))

    def _best_of(self, hidden: Tensor) -> BestWords:
        tops, marks, sums, *scale = _run(self.output, {"hidden": hidden})
        return self.blocks.best(hidden, self.table, [tops, marks, sums], scale[0] if scale else None)

    def _keys(self, session: Any, vectors: Tensor, bias: Tensor) -> Tensor:
        """(n, width) -> (2 * layers, n, width)."""
        keys, *scale = _run(session, {"vectors": vectors})
        keys = torch.addcmul(bias, keys, scale[0]) if scale else keys + bias
        return keys.view(len(vectors), 2 * self.layers, -1).transpose(0, 1)


def _session(graph: bytes, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
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
    return torch.zeros(visible.shape).masked_fill_(~visible, torch.finfo(torch.float32).min)
