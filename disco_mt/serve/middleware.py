"""The outermost layer of the application: access, size and time limits, security headers, metrics, the log.

A request's body is read here, whole, bounded and within a time limit; the application gets it in one piece.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from disco_mt.serve.http_errors import HttpError, describe, failed
from disco_mt.serve.service import Service

log = logging.getLogger("disco.serve")

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
}
"""Of every response that does not say otherwise."""
CLIENT_GONE = 499  # as nginx notes a client that has hung up


@dataclass(frozen=True)
class RequestMiddleware:
    app: ASGIApp
    service: Service
    paths: frozenset[str]  # known ones; all others share one label, or clients could create any number

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def send_noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._add_headers(message)
            await send(message)

        async def respond(error: HttpError) -> None:
            if not status:  # else it is too late: the connection ends in the middle of the response
                response = JSONResponse({"error": error.message}, error.status, error.headers)
                await response(scope, receive, send_noted)

        try:
            request = Request(scope, receive)
            self.service.access.check(request.headers)
            body = await self._body(request)
            await self.app(scope, _replay(body, receive), send_noted)
        except HttpError as error:
            await respond(error)
        except ClientDisconnect:
            pass  # nobody is there to be answered
        except Exception as error:
            log.error("unexpected: %s", describe(error))  # noqa: TRY400 - a traceback may quote a user's text
            await respond(failed())
        finally:
            self._note(scope, status or CLIENT_GONE, time.perf_counter() - started)

    async def _body(self, request: Request) -> bytes:
        """The whole body; refused as soon as it is too long or too slow."""
        length = request.headers.get("content-length", "0")
        if length.isdigit() and len(length) < 20 and int(length) > self.service.limits.body_bytes:
            raise self._too_large()
        if "transfer-encoding" not in request.headers and length == "0":
            return b""
        body = bytearray()
        try:
            async with asyncio.timeout(self.service.limits.receive_seconds):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > self.service.limits.body_bytes:
                        raise self._too_large()
        except TimeoutError:
            raise HttpError(408, "the request did not arrive in time", {"Connection": "close"}) from None
        return bytes(body)

    def _too_large(self) -> HttpError:
        most = self.service.limits.body_bytes
        return HttpError(413, f"a request may have at most {most} bytes", {"Connection": "close"})

    def _add_headers(self, message: Message) -> None:
        headers = MutableHeaders(scope=message)
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        if self.service.worker.is_draining:  # every connection is closed after its response
            headers["Connection"] = "close"

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self.paths else "other"
        self.service.metrics.requests.labels(path, str(status)).inc()
        self.service.metrics.latency.labels(path).observe(seconds)
        log.info("%s %s %s %.0f ms", scope["method"][:8], path, status, 1000 * seconds)


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body in one piece; after it, what the client does next (it can only disconnect)."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
