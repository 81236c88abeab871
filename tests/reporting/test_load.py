"""The load guard: the kernel's counters, our own processes taken off, a warning that names figures."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from disco_mt.reporting.load import Counters, Load, LoadGuard, read_counters

linux = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs /proc/stat")


def test_what_others_use_is_all_that_is_busy_less_our_own() -> None:
    before = Counters(10.0, 100.0, {1: 5.0, 2: 7.0})
    after = Counters(12.0, 103.0, {1: 6.0, 2: 8.5, 3: 0.5})
    assert before.others(after, own={1, 3}) == pytest.approx((3.0 - 1.0 - 0.5) / 2)
    assert before.others(after, own={1, 2, 3}) == 0


def test_the_counters_of_a_machine(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 20 30 4000 50 6 7 8 0 0\ncpu0 1 2 3\n", encoding="ascii")
    process = tmp_path / "42"
    process.mkdir()
    fields = " ".join(["S", *"0 " * 10, "300", "100", "0"])
    (process / "stat").write_text(f"42 (a (strange) name) {fields}\n", encoding="ascii")
    (tmp_path / "43").mkdir()  # it has ended
    found = read_counters(tmp_path)
    tick = os.sysconf("SC_CLK_TCK")
    assert found is not None
    assert found.busy == pytest.approx((100 + 20 + 30 + 6 + 7 + 8) / tick)  # neither idle nor iowait
    assert found.processes == {42: pytest.approx(400 / tick)}


def test_no_counters_where_the_system_has_none(tmp_path: Path) -> None:
    assert read_counters(tmp_path) is None


def test_a_warning_names_the_figures() -> None:
    assert not Load(0.1, 0.05, 0.3, 2).busy
    assert Load(0.1, 0.05, 0.3, 2).warning() == ""
    busy = Load(0.05, 1.25, 1.6, 2)
    assert busy.busy
    assert "0.05 of 2 cores before" in busy.warning()
    assert "1.25 during it (worst round 1.60" in busy.warning()


@linux
def test_a_process_at_work_is_seen_unless_it_is_ours() -> None:
    code = "import time\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as burner:
        try:
            guard = LoadGuard(0.5)
            assert guard.before > 0
            first = last = read_counters()
            assert first is not None
            while last is None or last.processes[burner.pid] < first.processes[burner.pid] + 0.1:
                time.sleep(0.1)  # until it had its share, however busy the machine is
                last = read_counters()
            assert first.others(last, {os.getpid()}) > first.others(last, {os.getpid(), burner.pid})
        finally:
            burner.kill()
