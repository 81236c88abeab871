"""Threads that wait must sleep, not spin: OpenMP is told so before torch is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
INHERITED = {name: value for name, value in os.environ.items() if name not in WAITING}
ASK = f"import os; print(*(os.environ.get(name) for name in {WAITING}))"


def policy(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; {ASK}"],
        env=INHERITED | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    "entry",
    [
        "import disco_mt",
        "import disco_mt.cli",
        "from disco_mt import Translator",
        "import disco_mt.bench.process",
        "import disco_mt.serve.process",
    ],
)
def test_every_entry_point_asks_for_passive_waiting(entry: str) -> None:
    assert policy(entry) == "passive 2000"


def test_the_users_own_choice_stays() -> None:
    assert policy("import disco_mt", OMP_WAIT_POLICY="active") == "active None"
    assert policy("import disco_mt", OMP_WAIT_POLICY="passive") == "passive None"
    assert policy("import disco_mt", GOMP_SPINCOUNT="9") == "passive 9"


def test_nothing_is_said_where_it_would_come_too_late() -> None:
    assert policy("import torch, disco_mt") == "None None"


def test_openmp_reads_it_in_time() -> None:
    """GNU OpenMP prints what it was told when torch loads it."""
    code = "import disco_mt, torch; torch.ones(9) + 1"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=INHERITED | {"OMP_DISPLAY_ENV": "true"},
        capture_output=True,
        text=True,
        check=True,
    )
    if "OMP_WAIT_POLICY" not in done.stderr:
        pytest.skip("this torch has another OpenMP, which prints nothing")
    assert "OMP_WAIT_POLICY = 'PASSIVE'" in done.stderr
