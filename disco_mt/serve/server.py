"""uvicorn with time limits for slow clients, and a shutdown that finishes what was accepted."""

from __future__ import annotations

import logging
import signal
import socket
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from disco_mt.core.errors import UserError
from disco_mt.serve.limits import Limits
from disco_mt.serve.worker import Worker

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("disco.serve")

HEADER_BYTES = 16_384


class Connection(H11Protocol):
    """A connection that knows how long its client has kept the server waiting."""

    waiting_since: float | None = None

    def expired(self, now: float, limits: Limits) -> bool:
        """Has the client left a request half sent, or a response unread, for too long?"""
        transport: asyncio.Transport | None = self.transport
        if transport is None:
            return False
        unread = transport.get_write_buffer_size() > 0
        if not unread and not self._half():
            self.waiting_since = None
            return False
        if self.waiting_since is None:
            self.waiting_since = now
        return now - self.waiting_since > (limits.send_seconds if unread else limits.receive_seconds)

    def _half(self) -> bool:
        """Is a header incomplete, or the first one not begun?"""
        return self.conn.their_state is h11.IDLE and (self.cycle is None or bool(self.conn.trailing_data[0]))


class Server(uvicorn.Server):
    """SIGTERM: accept nothing more, finish what was accepted, then end. A second signal ends at once."""

    def __init__(self, config: uvicorn.Config, limits: Limits, worker: Worker) -> None:
        super().__init__(config)
        self.limits, self.worker = limits, worker
        self.drain_until: float | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            at = self.servers[0].sockets[0].getsockname()
            log.info("serving on http://%s:%d", f"[{at[0]}]" if ":" in at[0] else at[0], at[1])

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """First drain; clients on open connections get 503 meanwhile, and /readyz says so."""
        if self.drain_until is not None:
            self.should_exit = self.force_exit = True
            return
        log.info("%s: finishing %d requests", signal.Signals(sig).name, self.worker.queued)
        self.worker.drain()
        self.drain_until = time.monotonic() + self.limits.drain_seconds

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: drop clients that keep us waiting; end when all is answered."""
        now = time.monotonic()
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection) and connection.expired(now, self.limits):
                connection.transport.abort()
        if self.drain_until is not None and (not self.worker.queued or now > self.drain_until):
            self.should_exit = True
        return await super().on_tick(counter)


def make_server(app: Any, limits: Limits, worker: Worker) -> Server:
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",  # its warnings are one line per bad client: they could flood the log
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_graceful_shutdown=int(limits.drain_seconds) + 1,
    )
    return Server(config, limits, worker)


def bind(host: str, port: int) -> socket.socket:
    """Take the port before anything slow is done; nobody can connect yet."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        taken = socket.socket(family)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(address)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot listen on {host}:{port}: {reason}; see --host and --port") from None
    return taken


def allow_files(number: int) -> None:
    """Every connection is an open file: raise the limit of open files, as far as the system allows."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number if hard == resource.RLIM_INFINITY else min(number, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
