"""The int8 peak: what is timed in ONNX Runtime is the whole product."""

from __future__ import annotations

import pytest
import torch

from disco_mt.bench.peak import _in_onnx_runtime
from disco_mt.core.machine import exact_int8_levels


def test_onnx_runtime_multiplies_what_it_is_given() -> None:
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package, reason="the extra 'onnx' is not installed")
    draw = torch.Generator().manual_seed(1)
    a, b = (
        torch.randint(-levels, levels + 1, size, generator=draw).to(torch.int8)
        for levels, size in ((127, (5, 64)), (exact_int8_levels(), (64, 9)))  # as the engine rounds weights
    )
    (found,) = _in_onnx_runtime(a, b)()  # type: ignore[misc]
    assert found.tolist() == ((a.long() + 128) @ b.long()).tolist()
