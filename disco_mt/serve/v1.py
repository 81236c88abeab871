"""/v1: our own API."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from disco_mt.decoding.options import DecodingOptions
from disco_mt.pins.parse import Pin
from disco_mt.serve.answers import whole_answer
from disco_mt.serve.http_errors import Refusal
from disco_mt.serve.models import ServedModel
from disco_mt.serve.schemas import (
    ErrorAnswer,
    ModelAnswer,
    ModelsAnswer,
    TranslateAnswer,
    TranslateRequest,
)
from disco_mt.serve.service import Order, Service, fulfil
from disco_mt.serve.stream import stream

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer, "description": description}
    for status, description in {
        400: "The body is no JSON",
        401: "An API key is needed",
        403: "The request comes from a foreign page",
        408: "The request did not arrive in time",
        413: "Too much text",
        422: "A field is wrong, or a pin is impossible",
        429: "Too many requests wait; see Retry-After",
        500: "The model failed",
        503: "The server is shutting down",
        504: "The deadline has passed",
    }.items()
}
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


def v1_routes(service: Service) -> APIRouter:
    """POST /v1/translate, GET /v1/models."""
    router = APIRouter(prefix="/v1", tags=["translate"])

    @router.post("/translate", response_model=TranslateAnswer, responses=REFUSALS | STREAMED)
    async def translate(body: TranslateRequest, request: Request) -> Response:
        """Translate one or many texts; with `stream`, as server-sent events."""
        started = time.perf_counter()
        service.check_key(request)
        order = _order(service, body)
        if body.stream:
            return stream(service, order)
        found = await fulfil(service, request, order)
        if not order.trace:
            return JSONResponse(whole_answer(order, found, started))
        # Traces are large: other clients are not to wait while one is written.
        return await asyncio.to_thread(lambda: JSONResponse(whole_answer(order, found, started)))

    @router.get("/models", response_model=ModelsAnswer)
    async def models() -> ModelsAnswer:
        """The models that can be asked."""
        return ModelsAnswer(models=[_described(model) for model in service.models.all])

    return router


def _order(service: Service, body: TranslateRequest) -> Order:
    texts = [body.text] if isinstance(body.text, str) else body.text
    service.check_size(texts, body.trace or body.stream)
    model = _chosen(service, body)
    options = DecodingOptions(
        strategy=body.strategy, iterations=body.iterations, length_beam=body.length_beam
    )
    model.check(options, bool(body.pinned))
    return Order.of(model, options, texts, _pins(body, len(texts)), body.trace)


def _pins(body: TranslateRequest, texts: int) -> list[list[Pin]]:
    """The pins of each text."""
    if any(pin.of >= texts for pin in body.pinned):
        raise Refusal(422, f"a pin is for a text that is not there; there are {texts}, counted from 0")
    return [
        [Pin(pin.text, pin.at, pin.sentence) for pin in body.pinned if pin.of == text]
        for text in range(texts)
    ]


def _chosen(service: Service, body: TranslateRequest) -> ServedModel:
    source, target = body.source or "", body.target or ""
    if body.model is None:
        found = service.models.pair(source, target)
    else:
        found = service.models.named(body.model)
        if found is not None and (source not in ("", found.source) or target not in ("", found.target)):
            raise Refusal(422, f"the model {found.name} translates from {found.source} to {found.target}")
    if found is None:
        there = ", ".join(f"{model.name} ({model.source}-{model.target})" for model in service.models.all)
        raise Refusal(422, f"there is no such model; there are: {there}")
    return found


def _described(model: ServedModel) -> ModelAnswer:
    return ModelAnswer(
        name=model.name,
        source=model.source,
        target=model.target,
        kind=model.kind,
        strategies=list(model.strategies),
    )
