"""The most that this machine multiplies in a second: what every system is measured against."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

_SHAPES = ((256, 1024, 1024), (1024, 1024, 1024))  # rows, inner, columns: large enough to hide the overhead


def measure_peak(repeats: int = 5) -> dict[str, float]:
    """GFLOP/s of fp32 and of int8 products with torch's present threads; the best of all tries.

    A multiplication and an addition are two operations, also in int8.
    """
    generator = torch.Generator().manual_seed(1)
    best = {"fp32": 0.0, "int8": 0.0}
    for rows, inner, columns in _SHAPES:
        a, b = (torch.randn(shape, generator=generator) for shape in ((rows, inner), (inner, columns)))
        small_a, small_b = ((30 * each).clamp(-127, 127).to(torch.int8) for each in (a, b))
        operations = 2 * rows * inner * columns / 1e9
        products: dict[str, Callable[[], object]] = {
            "fp32": lambda a=a, b=b: a @ b,  # type: ignore[misc]
            "int8": lambda a=small_a, b=small_b: torch._int_mm(a, b),  # type: ignore[misc]
        }
        for name, product in products.items():
            best[name] = max(best[name], operations / _quickest(product, repeats))
    return best


def _quickest(work: Callable[[], object], repeats: int) -> float:
    work()  # the first call prepares
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)
