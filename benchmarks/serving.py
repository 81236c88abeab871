"""`disco serve` under load on loopback, beside the best that the same model does offline.

python -m benchmarks.serving [--model DIR] [--clients 64] [--seconds 60] [--threads 1]

Without --model: random weights (3+3 layers, 256 wide) and a vocabulary of the phrasebook; speeds are then
comparable with each other only. Client and server share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BATCH_TOKENS = (512, 1024, 2048)
OVERLOAD = 600  # clients of the second part


@dataclass(frozen=True)
class Load:
    """What clients saw."""

    clients: int
    seconds: float
    statuses: dict[int, int]
    latencies: list[float]  # of answers 200, in order of size
    refused: list[float]  # of answers 429
    failed: int  # connections that broke

    def percentile(self, share: float) -> float:
        """Milliseconds within which that share of requests was answered."""
        return 1000 * self.latencies[min(len(self.latencies) - 1, int(share * len(self.latencies)))]

    @property
    def rate(self) -> float:
        """Sentences per second."""
        return len(self.latencies) / self.seconds


def sentences(number: int) -> list[str]:
    """English sentences of the phrasebook, all different."""
    from disco_mt.data.phrasebook import write_phrasebook

    with tempfile.TemporaryDirectory() as folder:
        write_phrasebook(Path(folder) / "text", train=number, valid=1, test=1, translations=1)
        return (Path(folder) / "text" / "train.en").read_text(encoding="utf-8").splitlines()


def random_model(path: Path, lines: list[str]) -> Path:
    """A model directory with random weights, large enough that predictions depend on their inputs."""
    import torch

    from disco_mt.core.files import atomic_directory
    from disco_mt.nn.config import ModelConfig, Stack
    from disco_mt.nn.directory import save_model
    from disco_mt.systems.build import build_model
    from disco_mt.text.pair import TextPair, VocabularyOptions

    text = TextPair.train(lines, lines, VocabularyOptions(("en", "de"), 4000))
    size, stack = text.source.vocabulary_size, Stack(3, 4, 1024)
    config = ModelConfig(
        width=256,
        encoder=stack,
        decoder=stack,
        max_source=64,
        max_target=24,
        length_classes=24,  # or random weights would write very long sentences
        source_vocabulary=size,
        target_vocabulary=size,
    )
    model = build_model(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    with atomic_directory(path) as directory:
        save_model(directory, model, text.save(directory), "# A model of the benchmark\n", {})
    return path


def offline(model: str, lines: list[str], threads: int) -> dict[int, float]:
    """Sentences per second, by padded tokens in a batch, in a process of its own."""
    code = (
        "import json, sys, time, torch\n"
        "from disco_mt import DecodeRequest, EngineOptions, Translator\n"
        "model, threads, sizes, lines = json.loads(sys.stdin.read())\n"
        "torch.set_num_threads(threads)\n"
        "translator = Translator.from_pretrained(model, EngineOptions(threads=threads))\n"
        "translator.translate(lines[:64])\n"
        "def rate(size):\n"
        "    start = time.perf_counter()\n"
        "    translator.translate(lines, request=DecodeRequest(batch_tokens=size))\n"
        "    return len(lines) / (time.perf_counter() - start)\n"
        "print(json.dumps([[size, rate(size)] for size in sizes]))\n"
    )
    given = json.dumps([model, threads, BATCH_TOKENS, lines])
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, text=True, check=True
    )
    return {int(size): float(rate) for size, rate in json.loads(done.stdout)}


@contextmanager
def serving(model: str, threads: int, *more: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A server in a process of its own: its port, and the process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "disco_mt", "serve", "--model", model, "--port", str(port), "--quiet"]
    process = subprocess.Popen([*command, "--threads", str(threads), *more])
    try:
        _wait(port)
        yield port, process
    finally:
        process.terminate()
        process.wait(60)


def _wait(port: int) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").read()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the server did not start")


async def load(port: int, clients: int, seconds: float, lines: list[str]) -> Load:
    """Clients that ask one sentence after the other, each on its own connection."""
    texts, statuses, latencies, refused = (
        itertools.cycle(lines),
        dict[int, int](),
        list[float](),
        list[float](),
    )
    failed, started = 0, time.perf_counter()
    end = started + seconds

    async def client() -> None:
        nonlocal failed
        connection = None
        while time.perf_counter() < end:
            begun = time.perf_counter()
            try:
                connection = connection or await asyncio.open_connection("127.0.0.1", port)
                status, goes_on = await _ask(*connection, next(texts))
            except (OSError, asyncio.IncompleteReadError):
                failed, connection = failed + 1, None
                continue
            statuses[status] = statuses.get(status, 0) + 1
            taken = time.perf_counter() - begun
            (latencies if status == 200 else refused).append(taken)
            if status != 200:
                await asyncio.sleep(0.5)
            if not goes_on:
                connection[1].close()
                connection = None
        if connection:
            connection[1].close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return Load(clients, time.perf_counter() - started, statuses, sorted(latencies), sorted(refused), failed)


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: str) -> tuple[int, bool]:
    body = json.dumps({"text": text}).encode()
    writer.write(
        b"POST /v1/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body) + body
    )
    head = await reader.readuntil(b"\r\n\r\n")
    size = re.search(rb"(?i)content-length: (\d+)", head)
    await reader.readexactly(int(size[1]) if size else 0)
    return int(head.split(b" ", 2)[1]), b"connection: close" not in head.lower()


def resident(process: subprocess.Popen[bytes]) -> float:
    """Megabytes of memory, of the server and of the processes that it has started."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
    return sum(_resident(pid) for pid in (process.pid, *map(int, children)))


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    kilobytes: list[str] = re.findall(r"VmRSS:\s+(\d+) kB", status)
    return int(kilobytes[0]) / 1024


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    lines = sentences(2000)
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or str(random_model(Path(folder) / "model", lines))
        print(measure(model, lines, options.clients, options.seconds, options.threads))


@dataclass(frozen=True)
class Report:
    """All that was measured."""

    offline: float  # the best rate, sentences per second
    load: Load
    memory: tuple[float, float]  # MB before and after the load
    crowd: Load  # far more clients than may wait
    after: Load  # one client, when the crowd has gone

    @property
    def share(self) -> float:
        """Throughput under load by that of the best batches offline."""
        return self.load.rate / self.offline

    def __str__(self) -> str:
        load, crowd, after = self.load, self.crowd, self.after
        slowest = 1000 * crowd.refused[-1] if crowd.refused else 0.0
        return (
            f"{load.clients} clients, {load.seconds:.0f} s: {load.statuses}, {load.failed} broken\n"
            f"{load.rate:.1f} sentences/s, {self.share:.0%} of the best offline, {self.offline:.1f}\n"
            f"p50 {load.percentile(0.5):.0f} ms, p99 {load.percentile(0.99):.0f} ms\n"
            f"memory: {self.memory[0]:.0f} MB before, {self.memory[1]:.0f} MB after\n"
            f"{crowd.clients} clients: {crowd.statuses}; the slowest refusal took {slowest:.0f} ms\n"
            f"then one client: {after.statuses}, p50 {after.percentile(0.5):.0f} ms"
        )


def measure(model: str, lines: list[str], clients: int, seconds: float, threads: int) -> Report:
    """Offline, under load, overloaded, and offline again: a busy machine is not as fast all the time."""
    before = offline(model, lines[:400], threads)
    with serving(model, threads) as (port, process):
        asyncio.run(load(port, clients, min(20, seconds), lines))  # memory settles
        started = resident(process)
        found = asyncio.run(load(port, clients, seconds, lines))
        memory = (started, resident(process))
        crowd = asyncio.run(load(port, OVERLOAD, 5, lines))
        after = asyncio.run(load(port, 1, 2, lines))
    again = offline(model, lines[:400], threads)
    return Report(max(*before.values(), *again.values()), found, memory, crowd, after)


if __name__ == "__main__":
    main()
