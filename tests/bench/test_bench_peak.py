"""The int8 peak: what is timed in ONNX Runtime is the whole product."""

from __future__ import annotations

import pytest
import torch

from disco_mt.bench.peak import _in_onnx_runtime


def test_onnx_runtime_multiplies_what_it_is_given() -> None:
    for package in ("onnx", "onnxruntime"):
        pytest.importorskip(package, reason="the extra 'onnx' is not installed")
    draw = torch.Generator().manual_seed(1)
    a, b = (torch.randint(-127, 128, size, generator=draw).to(torch.int8) for size in ((5, 64), (64, 9)))
    (found,) = _in_onnx_runtime(a, b)()  # type: ignore[misc]
    assert found.tolist() == ((a.long() + 128) @ b.long()).tolist()
