"""The machine's peak: GFLOP/s of large matrix products, which every system is measured against."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator
from importlib.util import find_spec

import torch
from torch import Tensor

_SHAPES = ((256, 1024, 1024), (1024, 1024, 1024))  # rows, inner, columns: large enough to hide the overhead


def measure_peak(repeats: int = 5) -> dict[str, float]:
    """GFLOP/s of fp32 and of int8 products with torch's present threads; the best of all tries.

    A multiplication and an addition are two operations, also in int8. Its peak is that of whichever runtime
    is faster: ONNX Runtime may know matrix instructions that torch does not use.
    """
    generator = torch.Generator().manual_seed(1)
    best = {"fp32": 0.0, "int8": 0.0}
    for rows, inner, columns in _SHAPES:
        a, b = (torch.randn(shape, generator=generator) for shape in ((rows, inner), (inner, columns)))
        operations = 2 * rows * inner * columns / 1e9
        for name, product in _products(a, b):
            product()  # the first call prepares
            seconds = min(timeit.repeat(product, number=1, repeat=repeats))
            best[name] = max(best[name], operations / seconds)
    return best


def _products(a: Tensor, b: Tensor) -> Iterator[tuple[str, Callable[[], object]]]:
    """(precision, a @ b by some runtime)."""
    small_a, small_b = ((30 * each).clamp(-127, 127).to(torch.int8) for each in (a, b))
    yield "fp32", lambda: a @ b
    yield "int8", lambda: torch._int_mm(small_a, small_b)
    if find_spec("onnx") and find_spec("onnxruntime"):
        yield "int8", _in_onnx_runtime(small_a, small_b)


def _in_onnx_runtime(a: Tensor, b: Tensor) -> Callable[[], object]:
    """b is a constant, as weights are."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    product = helper.make_node("MatMulInteger", ["a", "b"], ["c"])
    given = helper.make_tensor_value_info("a", TensorProto.UINT8, list(a.shape))
    result = helper.make_tensor_value_info("c", TensorProto.INT32, [len(a), b.shape[1]])
    weights = [numpy_helper.from_array(b.numpy(), "b")]
    graph = helper.make_graph([product], "product", [given], [result], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feed = {"a": (a.to(torch.int16) + 128).to(torch.uint8).numpy()}
    return lambda: session.run(None, feed)
