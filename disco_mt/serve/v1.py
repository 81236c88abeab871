"""/v1: our own API."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from disco_mt.decoding.options import DecodingOptions
from disco_mt.pins.parse import Pin
from disco_mt.serve.http_errors import HttpError
from disco_mt.serve.models import ServedModel
from disco_mt.serve.responses import stream, translate_answer
from disco_mt.serve.schemas import ErrorAnswer, ModelsAnswer, TranslateAnswer, TranslateRequest
from disco_mt.serve.service import Service
from disco_mt.serve.worker import Job

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": description}
    for status, description in {
        400: "The body is not JSON",
        401: "An API key is needed",
        403: "The request comes from a page of another origin",
        408: "The request did not arrive in time",
        413: "Too much text",
        422: "A field is wrong, or a pin is impossible",
        429: "Too many requests are waiting; see Retry-After",
        500: "The model failed",
        503: "The server is shutting down",
        504: "The deadline has passed",
    }.items()
}
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


def v1_routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["translate"])

    @router.post("/translate", response_model=TranslateAnswer, responses=ERRORS | STREAMED)
    async def translate(body: TranslateRequest, request: Request) -> Response:
        """Translate one or many texts; with `stream`, as server-sent events."""
        started = time.perf_counter()
        service.keys.check(request.headers)
        job = _job(service, body)
        if body.stream:
            return stream(service, job)
        translations = await service.translate(request, job)
        if not job.trace:
            return JSONResponse(translate_answer(job, translations, started))
        # Traces are large: other clients should not wait while one is written.
        return await asyncio.to_thread(lambda: JSONResponse(translate_answer(job, translations, started)))

    @router.get("/models", response_model=ModelsAnswer)
    async def models() -> dict[str, Any]:
        """The models of this server."""
        return {"models": service.models.all}

    return router


def _job(service: Service, body: TranslateRequest) -> Job:
    texts = [body.text] if isinstance(body.text, str) else body.text
    service.check_size(texts, body.trace or body.stream)
    model = _model(service, body)
    options = DecodingOptions(
        strategy=body.strategy,
        effort=body.effort,
        iterations=body.iterations,
        length_beam=body.length_beam,
    )
    model.check(options, bool(body.pinned))
    if any(pin.of >= len(texts) for pin in body.pinned):
        raise HttpError(422, f"a pin is for a text that is not there; there are {len(texts)}, from 0")
    pins = [
        [Pin(pin.text, pin.at, pin.sentence) for pin in body.pinned if pin.of == text]
        for text in range(len(texts))
    ]
    return Job.of(model, options, texts, pins, body.trace)


def _model(service: Service, body: TranslateRequest) -> ServedModel:
    source, target = body.source or "", body.target or ""
    if body.model is None:
        model = service.models.pair(source, target)
    else:
        model = service.models.named(body.model)
        if model is not None and (source not in ("", model.source) or target not in ("", model.target)):
            raise HttpError(422, f"the model {model.name} translates from {model.source} to {model.target}")
    if model is None:
        models = ", ".join(f"{other.name} ({other.source}-{other.target})" for other in service.models.all)
        raise HttpError(422, f"there is no such model; there are: {models}")
    return model
