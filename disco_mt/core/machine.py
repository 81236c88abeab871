"""What this machine can do: determined once, then cached.

On some machines that report Intel's AMX, torch's bfloat16 products use it and end the process (SIGILL).
A child process finds out whether they do here.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from disco_mt.core.files import write_text

_ISA = "ONEDNN_MAX_CPU_ISA"  # limits torch's oneDNN, which reads it at its first use
_WITHOUT_AMX = "AVX512_CORE_FP16"
_TRY_AMX = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); x @ x"
_CPU_INFO = Path("/proc/cpuinfo")


def avoid_broken_amx() -> None:
    """Disable AMX in torch where it crashes. Call this before the first bfloat16 or int8 product.

    A setting in the user's environment takes precedence; child processes inherit ours.
    """
    if _ISA not in os.environ and "amx" in _cpu_info() and remembered("amx", _amx_is_broken):
        os.environ[_ISA] = _WITHOUT_AMX


def exact_int8_levels() -> int:
    """The largest quantized weight for which this processor computes exact sums of 8-bit products.

    x86 processors without VNNI add pairs of products in 16 bits, so weights must be one bit smaller.
    """
    x86 = platform.machine().lower() in ("x86_64", "amd64", "i686", "x86")
    return 63 if x86 and "vnni" not in _cpu_info() else 127


@functools.cache
def has_fast_mkl() -> bool:
    """Are MKL's bfloat16 products the fastest? Not on AMD processors with bfloat16 units."""
    return "avx512_bf16" not in _cpu_info().split() or "Intel" in _cpu_info()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def has_amx_int8() -> bool:
    """Does this processor report int8 AMX and the vector instructions that the kernels need?"""
    wanted = {"amx_tile", "amx_int8", "avx512f", "avx512bw", "avx512dq", "avx512vl", "fma"}
    return wanted <= set(_cpu_info().split())


def remembered(question: str, find_out: Callable[[], Any]) -> Any:
    """The answer (a JSON value) to a question about this machine, cached in the user's cache folder.

    The cache is keyed by processor and torch version; it is ignored if it cannot be read or written.
    """
    file = _cache_folder() / f"{_fingerprint(question)}.json"
    try:
        return json.loads(file.read_text(encoding="utf-8"))["answer"]
    except (OSError, ValueError, KeyError, TypeError):
        answer = find_out()
    with contextlib.suppress(OSError):
        write_text(file, json.dumps({"question": question, "answer": answer}) + "\n")
    return answer


def _amx_is_broken() -> bool:
    """Does a bfloat16 product kill the process?"""
    environment = {name: value for name, value in os.environ.items() if name != _ISA}
    done = subprocess.run([sys.executable, "-c", _TRY_AMX], env=environment, capture_output=True, check=False)
    return done.returncode < 0  # ended by a signal


def processor() -> str:
    """The name of the processor."""
    names = [line.partition(":")[2].strip() for line in _cpu_info().splitlines() if line[:10] == "model name"]
    return names[0] if names else platform.processor() or platform.machine()


def package_version(name: str) -> str:
    """Of an installed package, if it is one."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _cache_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "disco-mt" / "machine"


def _fingerprint(question: str) -> str:
    """A file name for the question and this machine."""
    facts = (
        question,
        platform.node(),
        platform.release(),
        str(os.cpu_count()),
        _cpu_info(),
        version("torch"),
    )
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32]


def _cpu_info() -> str:
    """Names and flags of the processors, which do not change while we run; "" on systems other than Linux."""
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))
