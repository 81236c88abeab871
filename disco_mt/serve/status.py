"""For those who run the server: is it alive, is it ready, how is it doing?"""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from disco_mt.serve.schemas import ErrorAnswer, StatusAnswer
from disco_mt.serve.service import Service


def status_routes(service: Service) -> APIRouter:
    """/healthz, /readyz, /metrics."""
    router = APIRouter(tags=["status"])
    worker = service.worker

    @router.get("/healthz", response_model=StatusAnswer, responses={503: {"model": StatusAnswer}})
    async def healthz() -> JSONResponse:
        """200 while the process can do its work; 503 means: start it anew."""
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
        service.check_key(request)
        return Response(service.metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router


def _status(status: str, code: int) -> JSONResponse:
    return JSONResponse({"status": status}, code)
