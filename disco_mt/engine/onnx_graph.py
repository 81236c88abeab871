"""ONNX graphs node by node: the blocks of a model as ONNX Runtime runs them, in float32 or int8.

int8 products: a matrix is rounded once, with a scale a column; the rows that it meets are rounded as they
come, with a scale a row, so that no row depends on its batch mates. Sums are exact integers.

A row's scale is its largest number. Where the row comes from a LayerNorm, that has found a scale already, its
standard deviation: such a row is rounded before LayerNorm's gain and shift, which become part of the matrix.
Not so in models that begin as one of Marian's, whose encoders have numbers 18 standard deviations away.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from disco_mt.engine.packed import AttentionWeights, FeedForwardWeights, Linear, Norm
from disco_mt.engine.quantization import ACTIVE_LEAST, ACTIVE_ZERO, LEVELS, ZERO, rounded_columns
from disco_mt.nn.config import ModelConfig
from disco_mt.version import __version__

OPSET = 20
_EXTRA = "com.microsoft"  # ONNX Runtime's own operators
LOW = float(np.finfo(np.float32).min)  # added to a score, it leaves nothing of it
_DEVIATIONS = 8  # standard deviations that 8 bits cover; beyond (9.03 was the most seen) they are cut
_LEAST_GAIN = 1e-3  # of a LayerNorm that can be undone
_TYPES = {"float": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}


class Unit(NamedTuple):
    """Rows of a LayerNorm before its gain and shift, rounded."""

    whole: str  # 8-bit numbers
    norm: tuple[Tensor, Tensor]  # gain and shift
    step: float  # standard deviations a number


class Graph:
    """A graph that grows. Methods take and return names of values."""

    def __init__(self, config: ModelConfig, precision: str, levels: int = LEVELS) -> None:
        """levels: the largest rounded weight; less than 127 where a processor's sums would overflow."""
        self.config, self.precision, self.levels = config, precision, levels
        self.pre = config.norm == "pre"
        self.far_numbers = config.positions == "marian"
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.known: dict[int, tuple[str, object]] = {}
        self.zeros: dict[str, str] = {}
        self.units: dict[str, Unit] = {}  # by the name of what LayerNorm made of it
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, kind: str, shape: tuple[int | str, ...]) -> str:
        """A value that is given; a named size may be any."""
        self.inputs.append(helper.make_tensor_value_info(name, _TYPES[kind], shape))
        return name

    def output(self, name: str, value: str, kind: str, shape: tuple[int | str, ...]) -> None:
        """A value to give back, under a name."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, _TYPES[kind], shape))

    def model(self) -> bytes:
        """The whole, checked, ready to be written or run."""
        graph = helper.make_graph(self._needed(), "disco", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(_EXTRA, 1)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="disco-mt", ir_version=10)
        model.producer_version = __version__
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())

    def _needed(self) -> list[Any]:
        """The nodes on which an output hangs."""
        wanted, nodes = {output.name for output in self.outputs}, []
        for node in reversed(self.nodes):
            if wanted.intersection(node.output):
                wanted.update(node.input)
                nodes.append(node)
        return nodes[::-1]

    def op(self, kind: str, *inputs: str, domain: str = "", attributes: dict[str, Any] | None = None) -> str:
        """One operator; its one result."""
        result = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [result], domain=domain, **(attributes or {})))
        return result

    def constant(self, array: NDArray[Any] | Tensor) -> str:
        """A fixed value; the same tensor is stored once."""
        if id(array) in self.known:
            return self.known[id(array)][0]
        values = array.detach().cpu().numpy() if isinstance(array, Tensor) else array
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, order="C"), name))
        self.known[id(array)] = name, array  # kept, so that its id stays its own
        return name

    def integers(self, *values: int) -> str:
        """A fixed list of whole numbers."""
        return self.constant(np.array(values, np.int64))

    def number(self, value: float) -> str:
        """A fixed number."""
        return self.constant(np.array(value, np.float32))

    def rows(self, table: Tensor, index: str) -> str:
        """table[index]."""
        return self.op("Gather", self.constant(table), index)

    def linear(self, x: str, linear: Linear) -> str:
        """x @ weight + bias. x: (rows, in)."""
        if x in self.units:
            return self.unit_product(x, linear)
        return self.op("Add", self.product(x, linear.weight), self.constant(linear.bias))

    def unit_product(self, x: str, linear: Linear) -> str:
        """The same in int8, of a LayerNorm's x = gain * unit + shift."""
        whole, (gain, shift), step = self.units[x]
        weight = linear.weight.detach().float().cpu()
        bias = linear.bias.detach().float().cpu() + shift @ weight
        return self.integer_product(whole, gain[:, None] * weight, scale=step, bias=bias)

    def product(self, x: str, matrix: Tensor, active: bool = False, rows: str = "rows") -> str:
        """x @ matrix in the graph's precision. matrix: (in, out); active, rows: see `rounded`."""
        if self.precision == "fp32":
            return self.op("MatMul", x, self.constant(matrix))
        whole, scale = self.rounded(x, active, rows)
        return self.op("Mul", self.integer_product(whole, matrix, ACTIVE_ZERO if active else ZERO), scale)

    def rounded(self, x: str, active: bool = False, rows: str = "rows") -> tuple[str, str]:
        """Rows as 8-bit numbers, and the scale of each: (rows, in), (rows, 1).

        A row of zeros has scale 0, and so do its products. active: x comes from the activation, which is
        never far below 0, so that nearly all numbers are kept for what is above. rows: a name for the number
        of rows; those of one name are as many.
        """
        size = x if active else self.op("Abs", x)
        top = self.op("ReduceMax", size, self.integers(1), attributes={"keepdims": 1})
        zero = ACTIVE_ZERO if active else ZERO
        scale = self.op("Mul", top, self.number(1 / (255 - zero)))
        if active:
            scale = self.op("Max", scale, self.number(ACTIVE_LEAST[self.config.activation] / zero))
        each = self.op("Squeeze", scale, self.integers(1))
        return self.op(
            "QuantizeLinear", x, each, self._zeros(each, zero, rows), attributes={"axis": 0}
        ), scale

    def _zeros(self, each: str, zero: int, rows: str) -> str:
        """The number that stands for 0, for each row."""
        key = f"{rows} {zero}"
        if key not in self.zeros:
            number = self.constant(np.array([zero], np.uint8))
            self.zeros[key] = self.op("Expand", number, self.op("Shape", each))
        return self.zeros[key]

    def integer_product(
        self, whole: str, matrix: Tensor, zero: int = ZERO, scale: float = 1.0, bias: Tensor | None = None
    ) -> str:
        """Rounded rows times a rounded matrix, plus bias. zero: what is 0; scale: one for all rows."""
        rounded, columns = rounded_columns(matrix, self.levels)
        table = rounded.numpy().astype(np.int8)
        nothing = self.constant(np.array(zero, np.uint8))
        parts = [whole, self.constant(table), self.number(scale), self.constant(columns.numpy()), nothing]
        parts += [] if bias is None else ["", self.constant(bias.numpy())]
        return self.op("MatMulIntegerToFloat", *parts, domain=_EXTRA)

    def norm(self, x: str, norm: Norm) -> str:
        """LayerNorm."""
        if self.precision == "fp32" or self.far_numbers:
            return self._layer_norm(x, norm.epsilon, self.constant(norm.weight), self.constant(norm.bias))
        unit = self._layer_norm(x, norm.epsilon, self.constant(np.ones(len(norm.weight), np.float32)))
        scaled = self.op("Mul", unit, self.constant(norm.weight))
        result = self.op("Add", scaled, self.constant(norm.bias))
        self.units[result] = self._rounded_unit(unit, norm)
        return result

    def undo_norm(self, x: str, norm: Norm) -> None:
        """Know that x is what this LayerNorm made of rows; if that can be told from x."""
        if norm.weight.abs().min() < _LEAST_GAIN:
            return
        scaled = self.op("Mul", x, self.constant(1 / norm.weight))
        self.units[x] = self._rounded_unit(
            self.op("Sub", scaled, self.constant(norm.bias / norm.weight)), norm
        )

    def _layer_norm(self, x: str, epsilon: float, *gain_and_shift: str) -> str:
        return self.op("LayerNormalization", x, *gain_and_shift, attributes={"epsilon": epsilon, "axis": -1})

    def _rounded_unit(self, unit: str, norm: Norm) -> Unit:
        """unit: rows of mean 0 and variance 1."""
        step = min(_DEVIATIONS, math.sqrt(len(norm.weight) - 1)) / (255 - ZERO)  # none is beyond the root
        whole = self.op("QuantizeLinear", unit, self.number(step), self.constant(np.array(ZERO, np.uint8)))
        gain, shift = (each.detach().float().cpu() for each in (norm.weight, norm.bias))
        return Unit(whole, (gain, shift), step)

    def last(self, x: str, norm: Norm | None) -> str:
        """The LayerNorm at the end of pre-norm stacks."""
        return x if norm is None else self.norm(x, norm)

    def enter(self, x: str, norm: Norm) -> str:
        """What a block reads."""
        return self.norm(x, norm) if self.pre else x

    def leave(self, x: str, out: str, bias: Tensor, norm: Norm) -> str:
        """The residual stream after a block, whose last product has yet to get its bias."""
        total = self.op("Add", x, self.op("Add", out, self.constant(bias)))
        return total if self.pre else self.norm(total, norm)

    def feed_forward(self, x: str, block: FeedForwardWeights) -> str:
        """One feed-forward block and its frame. x: (rows, width)."""
        inside = self.linear(self.enter(x, block.norm), block.up)
        active = self.activation(inside)
        return self.leave(x, self.product(active, block.down.weight, True), block.down.bias, block.norm)

    def activation(self, x: str) -> str:
        """The model's activation."""
        if self.config.activation == "silu":
            return self.op("Mul", x, self.op("Sigmoid", x))
        return self.op("Gelu" if self.config.activation == "gelu" else "Relu", x)

    def float_linear(self, x: str, linear: nn.Linear) -> str:
        """x @ weight.T + bias in float32, whatever the graph's precision."""
        return self.op(
            "Gemm", x, self.constant(linear.weight), self.constant(linear.bias), attributes={"transB": 1}
        )

    def query(self, x: str, block: AttentionWeights) -> str:
        """Queries of rows."""
        return self.linear(self.enter(x, block.norm), block.query)

    def split(self, x: str, heads: int) -> str:
        """(groups, length, width) -> (groups, heads, length, size)."""
        return self.swapped(self.op("Reshape", x, self.integers(0, 0, heads, self.config.width // heads)))

    def swapped(self, x: str) -> str:
        """(groups, length, heads, size) -> (groups, heads, length, size), or back."""
        return self.op("Transpose", x, attributes={"perm": [0, 2, 1, 3]})

    def attend(self, query: str, key: str, value: str, bias: str) -> str:
        """Attention; queries are scaled. query: (groups, heads, rows, size); key, value: the same of keys.

        bias: (groups, 1, rows or 1, keys), 0 where visible and very low elsewhere. -> (groups * rows, width).
        """
        turned = self.op("Transpose", key, attributes={"perm": [0, 1, 3, 2]})  # part of the product when run
        scores = self.op("Add", self.op("MatMul", query, turned), bias)
        weights = self.op("Softmax", scores, attributes={"axis": -1})
        mixed = self.swapped(self.op("MatMul", weights, value))
        return self.op("Reshape", mixed, self.integers(-1, self.config.width))

    def cut(self, x: str, start: int, end: int, axis: int) -> str:
        """x from `start` to `end` along an axis."""
        return self.op("Slice", x, self.integers(start), self.integers(end), self.integers(axis))
