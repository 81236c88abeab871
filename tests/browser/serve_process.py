"""`disco serve` as a process of its own, on a free port of loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

READY_SECONDS = 60.0


@dataclass(frozen=True)
class Served:
    """Where the server listens."""

    url: str  # ends with /
    log: Path


@contextmanager
def serve(models: Sequence[Path | str], log: Path) -> Iterator[Served]:
    """A server that is ready; it is told to end, and must."""
    port = _free_port()
    command = [sys.executable, "-m", "disco_mt", "serve", "--port", str(port), "--model", *map(str, models)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
    served = Served(f"http://127.0.0.1:{port}/", log)
    try:
        _wait(served, process)
        yield served
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(served: Served, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"disco serve ended with {process.returncode}: {served.log.read_text()}")
        try:
            urllib.request.urlopen(f"{served.url}readyz", timeout=2).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"disco serve was not ready after {READY_SECONDS} s: {served.log.read_text()}")


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
