"""Health, readiness, and metrics for Prometheus. No text, no address, no key is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from disco_mt.serve.schemas import ErrorAnswer, StatusAnswer

if TYPE_CHECKING:
    from disco_mt.serve.service import Service

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128)
_STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30)


class Metrics:
    """One registry per server, so that several servers can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("disco_requests", "Requests answered", "path", "status")
        self.latency = self._histogram(
            "disco_request_seconds",
            "Time from a request's header to the end of its response",
            _SECONDS,
            "path",
        )
        self.failures = self._counter("disco_model_failures", "Sentences that made a model raise")
        self.rows = self._counter("disco_rows_computed", "Target positions that a model has predicted")
        self.words = self._counter("disco_words", "Target tokens returned")
        self.batches = self._histogram("disco_batch_sentences", "Sentences decoded together", _SENTENCES)
        self.batch_seconds = self._histogram("disco_batch_seconds", "Time to decode a batch", _SECONDS)
        self.steps = self._histogram("disco_steps", "Sequential decoder passes of a sentence", _STEPS)
        self.queue = Gauge(
            "disco_queue_requests", "Requests accepted, not yet answered", registry=self.registry
        )

    def _counter(self, name: str, help_: str, *labels: str) -> Counter:
        return Counter(name, help_, labels, registry=self.registry)

    def _histogram(self, name: str, help_: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, help_, labels, buckets=buckets, registry=self.registry)


def monitoring_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["status"])
    worker = service.worker

    @router.get("/healthz", response_model=StatusAnswer, responses={503: {"model": StatusAnswer}})
    async def healthz() -> JSONResponse:
        """200 while the process can do its work; 503 means that it should be restarted."""
        return _status("ok", 200) if worker.is_alive else _status("the worker has ended", 503)

    @router.get("/readyz", response_model=StatusAnswer, responses={503: {"model": StatusAnswer}})
    async def readyz() -> JSONResponse:
        """200 while requests are accepted; 503 while the server drains."""
        if worker.is_draining:
            return _status("draining", 503)
        return _status("ready", 200) if worker.is_alive else _status("not started", 503)

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}}, 401: {"model": ErrorAnswer}},
    )
    async def metrics(request: Request) -> Response:
        """Counters for Prometheus."""
        service.keys.check(request.headers)
        exposition = generate_latest(service.metrics.registry)
        return Response(exposition, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router


def _status(status: str, code: int) -> JSONResponse:
    return JSONResponse({"status": status}, code)
