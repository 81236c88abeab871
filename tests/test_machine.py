"""What is found out about the machine, and remembered."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from disco_mt import machine

MULTIPLY = (
    "import torch; from disco_mt.machine import avoid_broken_amx; avoid_broken_amx();"
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
