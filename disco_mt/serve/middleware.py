"""What stands before the application: who may speak, how much, and how slowly. Plain ASGI.

A body is read here, whole, bounded and within a time; the application gets it in one piece.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from disco_mt.core.errors import UserError
from disco_mt.serve.http_errors import Refusal, describe, failed
from disco_mt.serve.limits import Limits
from disco_mt.serve.metrics import Metrics

log = logging.getLogger("disco.serve")

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
}
"""Of every answer that does not say otherwise."""


@dataclass(frozen=True)
class Access:
    """From which pages, and under which names, the server may be asked."""

    origins: tuple[str, ...] = ()  # foreign pages that may
    hosts: tuple[str, ...] = ()  # names of the server; empty: any

    def check(self, headers: dict[bytes, bytes]) -> None:
        """Refuse a foreign page, and a name that is not ours (DNS rebinding)."""
        host = headers.get(b"host", b"").decode("latin-1")
        if self.hosts and _hostname(host) not in self.hosts and not _is_loopback(_hostname(host)):
            raise Refusal(400, "this server does not go by that name; see --allow-host")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin not in self.origins and "*" not in self.origins and not _same(origin, host):
            raise Refusal(403, "this server does not answer foreign pages; see --allow-origin")


def access_for(host: str, origins: tuple[str, ...], hosts: tuple[str, ...]) -> Access:
    """On loopback only names of loopback are ours, and those that were given."""
    for origin in origins:
        parts = urlsplit(origin)
        if origin != "*" and (not parts.scheme or not parts.netloc or parts.path):
            raise UserError(f"an origin is like https://example.org, got {origin!r}")
    named = tuple(name.lower() for name in hosts)
    return Access(origins, named or (("localhost",) if _is_loopback(host) else ()))


class Gone(Exception):  # noqa: N818 - not a mistake
    """The client has hung up."""


@dataclass
class Answer:
    """What has been sent so far."""

    status: int = 0


@dataclass(frozen=True)
class Guard:
    """The outermost layer: checks, time limits, headers, metrics and the log."""

    app: App
    limits: Limits
    access: Access
    metrics: Metrics
    paths: frozenset[str]  # known ones: others share one label, or clients could make up labels without end
    draining: Callable[[], bool]  # then every connection ends with its answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, answer = time.perf_counter(), Answer()
        sender = self._sender(send, answer)
        try:
            headers = dict(scope["headers"])
            self.access.check(headers)
            body = await self._body(headers, receive)
            await self.app(scope, _replay(body, receive), sender)
        except Refusal as refusal:
            await self._refuse(refusal, answer, sender)
        except Gone:
            pass  # nobody is there to be answered
        except Exception as error:
            log.error("unexpected: %s", describe(error))  # noqa: TRY400 - a trace may quote a user's text
            await self._refuse(failed(), answer, sender)
        finally:
            self._note(scope, answer.status, time.perf_counter() - started)

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """The whole body, or a refusal as soon as it is too long or too slow."""
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and len(length) < 20 and int(length) > self.limits.body_bytes:
            raise self._too_large()
        if b"transfer-encoding" not in headers and length == b"0":
            return b""
        try:
            async with asyncio.timeout(self.limits.receive_seconds):
                return await self._read(receive)
        except TimeoutError:
            raise Refusal(408, "the request did not arrive in time", {"Connection": "close"}) from None

    async def _read(self, receive: Receive) -> bytes:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            body += message.get("body", b"")
            if len(body) > self.limits.body_bytes:
                raise self._too_large()
            if not message.get("more_body", False):
                return bytes(body)

    def _too_large(self) -> Refusal:
        most = self.limits.body_bytes
        return Refusal(413, f"a request may have at most {most} bytes", {"Connection": "close"})

    def _sender(self, send: Send, answer: Answer) -> Send:
        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                last = [(b"connection", b"close")] if self.draining() else []
                message["headers"] = _with_defaults([*message.get("headers", []), *last])
            await send(message)

        return noted

    async def _refuse(self, refusal: Refusal, answer: Answer, send: Send) -> None:
        if answer.status:  # too late to say so: the connection ends in the middle of the answer
            return
        body = json.dumps({"error": refusal.message}).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), **refusal.headers}
        await send(
            {
                "type": "http.response.start",
                "status": refusal.status,
                "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            }
        )
        await send({"type": "http.response.body", "body": body})

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self.paths else "other"
        self.metrics.requests.labels(path, str(status or 499)).inc()
        self.metrics.latency.labels(path).observe(seconds)
        log.info("%s %s %s %.0f ms", scope["method"][:8], path, status or 499, 1000 * seconds)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body in one piece; after it, what the client does next (it can only go)."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _with_defaults(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    there = {name.lower() for name, _ in headers}
    more = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
    return [*headers, *((name, value) for name, value in more if name not in there)]


def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _same(origin: str, host: str) -> bool:
    """Is a page of this origin our own?"""
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
