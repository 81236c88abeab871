"""ONNX graphs node by node: the blocks of a model as ONNX Runtime runs them, in float32 or int8.

int8 products: a matrix is quantized once, with one scale per column; the rows it is multiplied with are
quantized as they come, with one scale per row, so that no row depends on its batch mates. Sums are exact
integers.

The scale of a row is its largest absolute value. Where a row comes from a LayerNorm, its standard deviation
is known: such a row is quantized before gain and shift, which become part of the matrix. This is not done in
models that start from a Marian model: the outputs of their encoders have outliers of 18 standard deviations.
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
from disco_mt.engine.quantization import (
    ACTIVATION_MINIMUM,
    ACTIVATION_ZERO,
    MAX_WEIGHT,
    ZERO,
    quantize_columns,
)
from disco_mt.nn.config import ModelConfig
from disco_mt.version import __version__

OPSET = 20
_MICROSOFT = "com.microsoft"  # ONNX Runtime's own operators
LOW = float(np.finfo(np.float32).min)  # added to an attention score, it leaves a weight of 0
_DEVIATIONS = 8  # standard deviations that 8 bits cover; what is beyond (9.03 at most so far) is clipped
_LEAST_GAIN = 1e-3  # of a LayerNorm that can be undone
_TYPES = {"float": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}


class NormalizedRows(NamedTuple):
    """Quantized outputs of a LayerNorm, before gain and shift."""

    quantized: str  # uint8
    norm: tuple[Tensor, Tensor]  # gain and shift
    step: float  # standard deviations per integer


class Graph:
    """A graph under construction. Methods take and return names of values."""

    def __init__(self, config: ModelConfig, precision: str, max_weight: int = MAX_WEIGHT) -> None:
        """max_weight: the largest quantized weight; below 127 where a processor's sums would overflow."""
        self.config = config
        self.precision = precision
        self.max_weight = max_weight
        self.pre_norm = config.norm == "pre"
        self.has_outliers = config.positions == "marian"
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.constant_names: dict[int, tuple[str, object]] = {}  # by id() of the array
        self.zeros: dict[str, str] = {}
        self.normalized: dict[str, NormalizedRows] = {}  # by the name of the LayerNorm's output
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, kind: str, shape: tuple[int | str, ...]) -> str:
        """Declare an input; a size given by name is dynamic."""
        self.inputs.append(helper.make_tensor_value_info(name, _TYPES[kind], shape))
        return name

    def output(self, name: str, value: str, kind: str, shape: tuple[int | str, ...]) -> None:
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, _TYPES[kind], shape))

    def model(self) -> bytes:
        """The finished model, checked and serialized."""
        graph = helper.make_graph(self._needed(), "disco", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(_MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="disco-mt", ir_version=10)
        model.producer_version = __version__
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString())

    def _needed(self) -> list[Any]:
        """The nodes that an output depends on."""
        wanted = {output.name for output in self.outputs}
        nodes = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.output):
                wanted.update(node.input)
                nodes.append(node)
        return nodes[::-1]

    def op(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator with one output."""
        result = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [result], domain=domain, **attributes))
        return result

    def constant(self, array: NDArray[Any] | Tensor) -> str:
        """The same tensor is stored only once."""
        if id(array) in self.constant_names:
            return self.constant_names[id(array)][0]
        values = array.detach().cpu().numpy() if isinstance(array, Tensor) else array
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, order="C"), name))
        self.constant_names[id(array)] = name, array  # keeps the array alive, so that its id stays unique
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def integer(self, value: int) -> str:
        return self.constant(np.array(value, np.int64))

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def concat(self, axis: int, *values: str) -> str:
        return self.op("Concat", *values, axis=axis)

    def slice(self, x: str, start: int, end: int, axis: int) -> str:
        return self.op("Slice", x, self.integers(start), self.integers(end), self.integers(axis))

    def rows(self, table: Tensor, index: str) -> str:
        """table[index]."""
        return self.op("Gather", self.constant(table), index)

    def first_rows(self, table: Tensor, tokens: str) -> str:
        """table[: tokens.shape[1]]."""
        length = self.op("Gather", self.op("Shape", tokens), self.integer(1))
        return self.rows(table, self.op("Range", self.integer(0), length, self.integer(1)))

    def attention_bias(self, visible: str, *new_axes: int) -> str:
        """0 where visible and very low elsewhere, with axes for heads and queries."""
        bias = self.op("Where", visible, self.number(0.0), self.number(LOW))
        return self.op("Unsqueeze", bias, self.integers(*new_axes))

    def linear(self, x: str, linear: Linear) -> str:
        """x @ weight + bias. x: (rows, in)."""
        if x in self.normalized:
            return self.normalized_product(x, linear)
        return self.op("Add", self.product(x, linear.weight), self.constant(linear.bias))

    def normalized_product(self, x: str, linear: Linear) -> str:
        """`linear` in int8 for x = gain * normalized + shift, the output of a LayerNorm."""
        quantized, (gain, shift), step = self.normalized[x]
        weight = linear.weight.detach().float().cpu()
        bias = linear.bias.detach().float().cpu() + shift @ weight
        return self.integer_product(quantized, gain[:, None] * weight, scale=step, bias=bias)

    def product(self, x: str, matrix: Tensor, activated: bool = False, rows: str = "rows") -> str:
        """x @ matrix in the graph's precision. matrix: (in, out); activated, rows: see `quantize`."""
        if self.precision == "fp32":
            return self.op("MatMul", x, self.constant(matrix))
        quantized, scale = self.quantize(x, activated, rows)
        zero = ACTIVATION_ZERO if activated else ZERO
        return self.op("Mul", self.integer_product(quantized, matrix, zero), scale)

    def quantize(self, x: str, activated: bool = False, rows: str = "rows") -> tuple[str, str]:
        """Rows as uint8, and the scale of each row: (rows, in), (rows, 1).

        A row of zeros has scale 0, and so have its products. activated: x comes from the activation function,
        which is never far below 0, so nearly all integers are used for positive values. rows: a name for the
        number of rows; inputs with the same name have the same number.
        """
        size = x if activated else self.op("Abs", x)
        top = self.op("ReduceMax", size, self.integers(1), keepdims=1)
        zero = ACTIVATION_ZERO if activated else ZERO
        scale = self.op("Mul", top, self.number(1 / (255 - zero)))
        if activated:
            scale = self.op("Max", scale, self.number(ACTIVATION_MINIMUM[self.config.activation] / zero))
        scales = self.op("Squeeze", scale, self.integers(1))
        return self.op("QuantizeLinear", x, scales, self._zero_points(scales, zero, rows), axis=0), scale

    def _zero_points(self, scales: str, zero: int, rows: str) -> str:
        """The integer that stands for 0, once per row."""
        key = f"{rows} {zero}"
        if key not in self.zeros:
            number = self.constant(np.array([zero], np.uint8))
            self.zeros[key] = self.op("Expand", number, self.op("Shape", scales))
        return self.zeros[key]

    def integer_product(
        self, quantized: str, matrix: Tensor, zero: int = ZERO, scale: float = 1.0, bias: Tensor | None = None
    ) -> str:
        """Quantized rows times a quantized matrix, plus bias. zero: stands for 0; scale: that of all rows."""
        weights, columns = quantize_columns(matrix, self.max_weight)
        table = weights.numpy().astype(np.int8)
        zero_point = self.constant(np.array(zero, np.uint8))
        inputs = [
            quantized,
            self.constant(table),
            self.number(scale),
            self.constant(columns.numpy()),
            zero_point,
        ]
        inputs += [] if bias is None else ["", self.constant(bias.numpy())]
        return self.op("MatMulIntegerToFloat", *inputs, domain=_MICROSOFT)

    def norm(self, x: str, norm: Norm) -> str:
        if self.precision == "fp32" or self.has_outliers:
            return self._layer_norm(x, norm.epsilon, self.constant(norm.weight), self.constant(norm.bias))
        normalized = self._layer_norm(x, norm.epsilon, self.constant(np.ones(len(norm.weight), np.float32)))
        scaled = self.op("Mul", normalized, self.constant(norm.weight))
        result = self.op("Add", scaled, self.constant(norm.bias))
        self.normalized[result] = self._quantize_normalized(normalized, norm)
        return result

    def undo_norm(self, x: str, norm: Norm) -> None:
        """Let products with x, an output of this LayerNorm, use what was normalized, if x still shows it."""
        if norm.weight.abs().min() < _LEAST_GAIN:
            return
        scaled = self.op("Mul", x, self.constant(1 / norm.weight))
        normalized = self.op("Sub", scaled, self.constant(norm.bias / norm.weight))
        self.normalized[x] = self._quantize_normalized(normalized, norm)

    def _layer_norm(self, x: str, epsilon: float, *gain_and_shift: str) -> str:
        return self.op("LayerNormalization", x, *gain_and_shift, epsilon=epsilon, axis=-1)

    def _quantize_normalized(self, normalized: str, norm: Norm) -> NormalizedRows:
        """normalized: rows of mean 0 and variance 1."""
        largest = math.sqrt(len(norm.weight) - 1)  # in such a row
        step = min(_DEVIATIONS, largest) / (255 - ZERO)
        zero = self.constant(np.array(ZERO, np.uint8))
        quantized = self.op("QuantizeLinear", normalized, self.number(step), zero)
        gain = norm.weight.detach().float().cpu()
        shift = norm.bias.detach().float().cpu()
        return NormalizedRows(quantized, (gain, shift), step)

    def final_norm(self, x: str, norm: Norm | None) -> str:
        """The LayerNorm at the end of pre-norm stacks."""
        return x if norm is None else self.norm(x, norm)

    def enter(self, x: str, norm: Norm) -> str:
        """The input of a block."""
        return self.norm(x, norm) if self.pre_norm else x

    def leave(self, x: str, out: str, bias: Tensor, norm: Norm) -> str:
        """The residual stream after a block; `bias` is still missing in the output of its last product."""
        total = self.op("Add", x, self.op("Add", out, self.constant(bias)))
        return total if self.pre_norm else self.norm(total, norm)

    def feed_forward(self, x: str, block: FeedForwardWeights) -> str:
        """Feed-forward block with residual connection and LayerNorm. x: (rows, width)."""
        hidden = self.activation(self.linear(self.enter(x, block.norm), block.up))
        return self.leave(x, self.product(hidden, block.down.weight, True), block.down.bias, block.norm)

    def activation(self, x: str) -> str:
        if self.config.activation == "silu":
            return self.op("Mul", x, self.op("Sigmoid", x))
        return self.op("Gelu" if self.config.activation == "gelu" else "Relu", x)

    def float_linear(self, x: str, linear: nn.Linear) -> str:
        """x @ weight.T + bias in float32, whatever the graph's precision."""
        return self.op("Gemm", x, self.constant(linear.weight), self.constant(linear.bias), transB=1)

    def query(self, x: str, block: AttentionWeights) -> str:
        return self.linear(self.enter(x, block.norm), block.query)

    def attention_output(self, x: str, mixed: str, block: AttentionWeights) -> str:
        """The residual stream after attention. mixed: the weighted values, (rows, width)."""
        return self.leave(x, self.product(mixed, block.out.weight), block.out.bias, block.norm)

    def split_heads(self, x: str, heads: int) -> str:
        """(groups, length, width) -> (groups, heads, length, size)."""
        size = self.config.width // heads
        return self.swap_heads(self.op("Reshape", x, self.integers(0, 0, heads, size)))

    def swap_heads(self, x: str) -> str:
        """(groups, length, heads, size) -> (groups, heads, length, size), or back."""
        return self.op("Transpose", x, perm=[0, 2, 1, 3])

    def attend(self, query: str, key: str, value: str, bias: str) -> str:
        """Attention with scaled queries. query: (groups, heads, rows, size); key, value: the same of keys.

        bias: (groups, 1, rows or 1, keys), 0 where visible and very low elsewhere. -> (groups * rows, width).
        """
        transposed = self.op("Transpose", key, perm=[0, 1, 3, 2])  # ONNX Runtime fuses it with the product
        scores = self.op("Add", self.op("MatMul", query, transposed), bias)
        weights = self.op("Softmax", scores, axis=-1)
        mixed = self.swap_heads(self.op("MatMul", weights, value))
        return self.op("Reshape", mixed, self.integers(-1, self.config.width))
