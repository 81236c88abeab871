"""Clients that hang up, dawdle or talk nonsense, on real sockets; and a server that is told to end."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from serving import QUICK, Unwell, address, live, raw, until, unwell, url

from disco_mt.cli import main
from disco_mt.serve.limits import Limits
from disco_mt.serve.models import Models
from disco_mt.serve.server import Server
from disco_mt.serve.service import Service
from small_model import Small

IMPATIENT = Limits(receive_seconds=1, send_seconds=1, trace_characters=20_000, connections=40)


@pytest.fixture(scope="module")
def model(models: Models) -> Unwell:
    return unwell(models)


@pytest.fixture(scope="module")
def server(model: Unwell) -> Iterator[Server]:
    with live(Service(Models((model,)), IMPATIENT)) as server:
        yield server


@pytest.fixture(autouse=True)
def still_well(server: Server, model: Unwell) -> Iterator[None]:
    """Whatever a test did, the next client is answered."""
    model.pause.set()
    yield
    model.pause.set()
    answer = httpx.post(f"{url(server)}/v1/translate", json={"text": "The house.", **QUICK}, timeout=20)
    assert answer.status_code == 200
    until(lambda: server.worker.queued == 0)


def request(body: bytes, *headers: bytes, path: bytes = b"/v1/translate") -> bytes:
    lines = [b"POST " + path + b" HTTP/1.1", b"Host: localhost", b"Content-Type: application/json", *headers]
    return b"\r\n".join([*lines, b"", b""]) + body


def sized(body: bytes) -> bytes:
    return request(body, b"Content-Length: %d" % len(body))


def post(text: str) -> bytes:
    return sized(json.dumps({"text": text, **QUICK}).encode())


@pytest.mark.parametrize(
    "half", [b"", b"POST /v1/translate HT", post("a")[:60], request(b"", b"Content-Length: 50")[:-2]]
)
def test_half_headers_are_cut_off(server: Server, half: bytes) -> None:
    started = time.monotonic()
    assert raw(server, half) == b""
    assert 0.9 < time.monotonic() - started < 5


def test_half_bodies_are_answered_408(server: Server) -> None:
    assert raw(server, request(b'{"text"', b"Content-Length: 50")).startswith(b"HTTP/1.1 408")
    assert raw(server, request(b"5\r\nabc", b"Transfer-Encoding: chunked")).startswith(b"HTTP/1.1 408")


def test_half_a_second_request_is_cut_off_too(server: Server) -> None:
    answer = raw(server, post("The house.") + b"POST /v1/tr")
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"HTTP/1.1") == 1


def test_endless_bodies_are_refused_while_they_come(server: Server) -> None:
    chunks = b"ffff\r\n" + b"x" * 65535 + b"\r\n"
    assert b" 413 " in raw(server, request(chunks * 5, b"Transfer-Encoding: chunked"), 3)
    assert b" 413 " in raw(server, request(b"", b"Content-Length: 99999999999"), 3)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_nonsense_gets_400_or_nothing(server: Server, nonsense: bytes) -> None:
    answer = raw(server, nonsense, 1.5)
    assert answer == b"" or answer.split(b" ")[1] in (b"400", b"404", b"200")
    assert b"Traceback" not in answer


def test_who_hangs_up_leaves_the_queue(server: Server, model: Unwell) -> None:
    model.pause.clear()
    done = sum(model.batches)
    first = socket.create_connection(address(server))
    first.sendall(post("The first is being translated."))
    until(lambda: server.worker.queued == 1 and not server.worker._waiting)
    others = [socket.create_connection(address(server)) for _ in range(5)]
    for other in others:
        other.sendall(post("Nobody waits for this."))
    until(lambda: server.worker.queued == 6)
    for other in others:
        other.close()
    until(lambda: server.worker.queued == 1)
    model.pause.set()
    assert first.recv(1000).startswith(b"HTTP/1.1 200")
    first.close()
    assert sum(model.batches) == done + 1


def unread(server: Server, **more: object) -> socket.socket:
    """Ask for megabytes, and read nothing."""
    body = json.dumps({"text": ("the " * 45 + ".\n") * 12, "length_beam": 10, **more}).encode()
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(address(server))
    connection.sendall(sized(body))
    return connection


def test_a_stream_that_nobody_reads_ends(server: Server) -> None:
    connection = unread(server, stream=True)
    until(lambda: server.worker.queued == 1)
    until(lambda: server.worker.queued == 0, 30)  # it does not read, so it is cut off
    until(lambda: len(server.server_state.connections) == 0, 10)
    connection.close()


def test_slow_readers_hold_nobody_up(server: Server) -> None:
    slow = [unread(server, trace=True) for _ in range(2)]
    answer = httpx.post(f"{url(server)}/v1/translate", json={"text": "The house.", **QUICK}, timeout=20)
    assert answer.status_code == 200
    assert server.worker.queued  # the slow ones were there first, and still are
    until(lambda: server.worker.queued == 0, 60)
    until(lambda: len(server.server_state.connections) == 0, 20)
    for connection in slow:
        connection.close()


def test_too_many_connections_are_told_so(server: Server) -> None:
    idle = [socket.create_connection(address(server)) for _ in range(IMPATIENT.connections)]
    until(lambda: len(server.server_state.connections) >= IMPATIENT.connections)
    assert b" 503 " in raw(server, post("a"), 2)
    for connection in idle:
        connection.close()
    until(lambda: len(server.server_state.connections) == 0, 10)


def test_sigterm_under_load_answers_all_that_was_accepted(small: Small) -> None:
    """As a user runs it: a process of its own. What was accepted is answered; what comes later is not."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "disco_mt", "serve", "--model", str(small.disco), "--port", str(port)]
    process = subprocess.Popen([*command, "--threads", "1"], stderr=subprocess.PIPE, text=True)
    try:
        base = f"http://127.0.0.1:{port}"
        until(lambda: _ready(base), 120)
        answered = _sigterm(process, base)
        assert process.wait(20) == 0
        log = process.stderr.read() if process.stderr else ""
        assert "Traceback" not in log
        assert log.count("POST /v1/translate 200") == answered >= 8
        assert log.index("POST /v1/translate 200") < log.index("SIGTERM: finishing")
    finally:
        process.kill()
        process.wait()


def _sigterm(process: subprocess.Popen[str], base: str) -> int:
    """How many requests were answered 200."""
    body = {"text": "The old house sees the child. " * 20}
    stop = threading.Event()

    def ask(_: int) -> list[int]:
        statuses = []
        with httpx.Client(timeout=30) as client:
            while not stop.is_set():
                try:
                    statuses.append(client.post(f"{base}/v1/translate", json=body).status_code)
                except httpx.TransportError:
                    stop.wait(0.01)  # nobody listens any longer
        return statuses

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, n) for n in range(8)]
        time.sleep(1.5)
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        stop.set()
        statuses = [status for each in asked for status in each.result(30)]
    assert set(statuses) <= {200, 503}
    return statuses.count(200)


def _ready(base: str) -> bool:
    try:
        return httpx.get(f"{base}/readyz").status_code == 200
    except httpx.HTTPError:
        return False


def test_a_taken_port_is_the_user_s_to_mend(
    small: Small, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    port = str(address(server)[1])
    assert main(["serve", "--model", str(small.disco), "--port", port]) == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in capsys.readouterr().err
