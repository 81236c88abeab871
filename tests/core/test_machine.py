"""Properties of the machine are measured and cached."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from disco_mt.core import machine, mkl

MULTIPLY = (
    "import torch; from disco_mt.core.machine import avoid_broken_amx; avoid_broken_amx();"
    "x = torch.ones(64, 64, dtype=torch.bfloat16); print(float((x @ x)[0, 0]))"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "")  # so that it is put back afterwards
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")


def test_bfloat16_products_do_not_end_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", MULTIPLY], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "64.0"), done.stderr


def test_an_answer_is_found_out_once() -> None:
    assert machine.remembered("question", lambda: [1, 2]) == [1, 2]
    assert machine.remembered("question", lambda: pytest.fail("asked again")) == [1, 2]
    assert machine.remembered("another", lambda: 3) == 3


def test_a_damaged_or_closed_cache_is_done_without(tmp_path: Path) -> None:
    machine.remembered("question", lambda: 1)
    (file,) = (tmp_path / "cache" / "disco-mt" / "machine").iterdir()
    file.write_text("{", encoding="utf-8")
    assert machine.remembered("question", lambda: 2) == 2
    (tmp_path / "elsewhere").write_text("a file, no folder", encoding="utf-8")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path / "elsewhere")
    assert machine.remembered("question", lambda: 3) == 3


@pytest.mark.parametrize(("flags", "broken", "isa"), [("amx_bf16", True, True), ("amx_bf16", False, False)])
def test_torch_is_told_only_where_amx_is_broken(
    monkeypatch: pytest.MonkeyPatch, flags: str, broken: bool, isa: bool
) -> None:
    monkeypatch.setattr(machine, "_cpu_info", lambda: flags)
    monkeypatch.setattr(machine, "_amx_is_broken", lambda: broken)
    machine.avoid_broken_amx()
    assert ("ONEDNN_MAX_CPU_ISA" in os.environ) == isa


def test_no_child_is_asked_without_amx_nor_when_the_user_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_amx_is_broken", lambda: pytest.fail("a child was started"))
    monkeypatch.setattr(machine, "_cpu_info", lambda: "avx2")
    machine.avoid_broken_amx()
    assert "ONEDNN_MAX_CPU_ISA" not in os.environ
    monkeypatch.setattr(machine, "_cpu_info", lambda: "amx_bf16")
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    machine.avoid_broken_amx()
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX2"


@pytest.mark.parametrize(
    ("cpu", "fast"),
    [
        ("model name : Intel(R) Xeon(R) Platinum 8481C\nflags : avx512f avx512_bf16 amx_bf16", True),
        ("model name : Intel(R) Core(TM) i5\nflags : avx2", True),
        ("model name : AMD EPYC 9B14\nflags : avx512f avx512_bf16 avx512_vnni", False),
        ("model name : AMD EPYC 7B12\nflags : avx2", True),  # no units that MKL could leave unused
        ("model name : AMD EPYC 9B14\nflags : avx512f avx512_bf16x", True),  # another word
        ("", True),
    ],
)
def test_mkl_is_fast_unless_it_leaves_units_unused(
    monkeypatch: pytest.MonkeyPatch, cpu: str, fast: bool
) -> None:
    monkeypatch.setattr(machine, "_cpu_info", lambda: cpu)
    assert machine.has_fast_mkl.__wrapped__() is fast


@pytest.mark.skipif(not mkl.available(), reason="this torch has no MKL")
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_products_are_the_same_either_way(
    monkeypatch: pytest.MonkeyPatch, transposed: tuple[bool, bool]
) -> None:
    """Except for rounding: sums in float32 by MKL, in bfloat16 by oneDNN."""
    machine.avoid_broken_amx()
    generator = torch.Generator().manual_seed(1)
    left, right = (
        torch.randn(*(shape[::-1] if turned else shape), generator=generator).bfloat16()
        for shape, turned in zip(((9, 40), (40, 7)), transposed, strict=True)
    )
    left, right = (each.T if turned else each for each, turned in zip((left, right), transposed, strict=True))
    exact = left.double() @ right.double()
    worst = {True: 1e-4, False: 0.1}  # of numbers up to 20 or so; bfloat16 has 8 bits
    for fast in (True, False):
        monkeypatch.setattr(mkl, "has_fast_mkl", lambda fast=fast: fast)
        found = mkl.product(left, right, torch.full((9, 7), 5.0))
        assert found.dtype == torch.float32
        assert (found - exact).abs().max() < worst[fast]
        added = mkl.product(left, right, torch.full((9, 7), 5.0), add=True)
        assert (added - exact - 5).abs().max() < worst[fast]
        none = mkl.product(left[:, :0].contiguous(), right[:0].contiguous(), torch.full((9, 7), 5.0))
        assert (none == 0).all()
