"""Servers for the tests: in this process, on a real socket where sockets matter."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from disco_mt.decoding.results import OnPass, Translation
from disco_mt.serve.app import make_app
from disco_mt.serve.models import Models, ServedModel
from disco_mt.serve.process import Batch
from disco_mt.serve.server import Server, bind, make_server
from disco_mt.serve.service import Service

QUICK = {"iterations": 2, "length_beam": 2}


@dataclass(frozen=True)
class Unwell(ServedModel):
    """A real model that raises at "boom", and is slow on request."""

    pause: threading.Event = field(default_factory=threading.Event)  # cleared: wait
    batches: list[int] = field(default_factory=list)

    def translate(self, batch: Batch, on_pass: OnPass[str] | None = None) -> list[Translation]:
        self.pause.wait(20)
        self.batches.append(len(batch.sentences))
        if any("boom" in sentence.text for sentence in batch.sentences):
            raise RuntimeError("/secret/path: " + batch.sentences[0].text)
        return super().translate(batch, on_pass)


def unwell(models: Models) -> Unwell:
    """The first model, with faults; it does not wait yet."""
    first = models.all[0]
    found = Unwell(first.name, first.kind, first.text, first.decoder)
    found.pause.set()
    return found


@contextmanager
def live(service: Service) -> Iterator[Server]:
    """A server on a free port of loopback, in a thread; `address(server)` says where."""
    server = make_server(make_app(service), service.limits, service.worker)
    thread = threading.Thread(target=server.run, args=([bind("127.0.0.1", 0)],))
    thread.start()
    until(lambda: server.started)
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def address(server: Server) -> tuple[str, int]:
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    return str(host), int(port)


def url(server: Server) -> str:
    host, port = address(server)
    return f"http://{host}:{port}"


def raw(server: Server, data: bytes, timeout: float = 10) -> bytes:
    """Send bytes and read until the server closes, or stops for `timeout` seconds."""
    with socket.create_connection(address(server), timeout) as connection:
        connection.sendall(data)
        received = b""
        try:
            while chunk := connection.recv(65536):
                received += chunk
        except (TimeoutError, ConnectionResetError):
            pass
        return received


def until(condition: object, seconds: float = 10) -> None:
    """Wait for something to become true."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
