"""/v1: our own API. Translations are sent as one JSON object, or as server-sent events:

event: pass    {"text": 0, "sentence": 0, "step": 1, "winner": 0, "candidates": [...], ...}
event: result  as without `stream`
event: error   {"error": "..."}
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from disco_mt.decoding.options import DecodingOptions
from disco_mt.decoding.results import Pass, Trace, Translation
from disco_mt.pins.parse import Pin
from disco_mt.serve.http_errors import HttpError, deadline_passed, failed
from disco_mt.serve.models import ServedModel
from disco_mt.serve.schemas import ErrorAnswer, ModelsAnswer, TranslateAnswer, TranslateRequest
from disco_mt.serve.service import Service
from disco_mt.serve.worker import Job, Lines
from disco_mt.systems import strategy_for
from disco_mt.views import TraceView
from disco_mt.views.view import readable_pieces, to_data

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


def translate_answer(job: Job, translations: Sequence[Translation], started: float) -> dict[str, Any]:
    """A TranslateAnswer. started: by time.perf_counter."""
    milliseconds = round(1000 * (time.perf_counter() - started), 1)
    rest = iter(translations)
    return {
        "model": job.model.name,
        "source": job.model.source,
        "target": job.model.target,
        "strategy": strategy_for(job.model.kind, job.options.strategy),
        "milliseconds": milliseconds,
        "translations": [_text_answer(job.model, lines, rest, milliseconds) for lines in job.texts],
    }


def _text_answer(
    model: ServedModel, lines: Lines, rest: Iterator[Translation], milliseconds: float
) -> dict[str, Any]:
    translated = [[(source, next(rest)) for source in line] for line in lines]
    flat = [pair for line in translated for pair in line]
    return {
        "text": model.join([[translation.text for _, translation in line] for line in translated]),
        "steps": sum(translation.steps for _, translation in flat),
        "sentences": [
            _sentence_answer(model, source, translation, milliseconds) for source, translation in flat
        ],
    }


def _sentence_answer(
    model: ServedModel, source: str, translation: Translation, milliseconds: float
) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "source": source,
        "text": translation.text,
        "tokens": translation.tokens,
        "pieces": translation.pieces,
        "probabilities": [round(value, 6) for value in translation.probabilities],
        "pinned": translation.pinned,
        "score": round(translation.score, 6) if math.isfinite(translation.score) else 0.0,
        "steps": translation.steps,
    }
    if (trace := translation.trace) is not None:
        pieces = readable_pieces(trace, model.text.target)
        view = TraceView(trace.strategy, trace, translation.text, translation.steps, pieces, milliseconds)
        answer["trace"] = to_data(source, [view])["traces"][0]
    return answer


def pass_answer(model: ServedModel, now: Pass[str], before: Pass[str] | None) -> dict[str, Any]:
    """One pass as it is streamed: like one of the passes of a trace. before: the pass before it."""
    passes = (now.candidates,) if before is None else (before.candidates, now.candidates)
    trace = Trace(
        now.strategy, now.lengths, now.length_log_probabilities, passes, (now.winner,) * len(passes)
    )
    view = TraceView(now.strategy, trace, "", now.step, readable_pieces(trace, model.text.target))
    data = to_data("", [view])["traces"][0]
    return {
        "step": now.step,
        "lengths": data["lengths"],
        "lengthLogProbabilities": data["lengthLogProbabilities"],
        "winner": now.winner,
        "candidates": data["passes"][-1],
    }


def stream(service: Service, job: Job) -> StreamingResponse:
    """Queue the job (or refuse it, while a status can still say so) and send what becomes of it.

    What waits to be sent is bounded: passes are few, and texts are short where every pass is wanted.
    """
    events: asyncio.Queue[tuple[str, dict[str, Any]] | None] = asyncio.Queue()
    loop, started = asyncio.get_running_loop(), time.perf_counter()
    latest: dict[int, Pass[str]] = {}  # of each sentence

    def report(index: int, now: Pass[str]) -> None:
        if job.done.done():
            raise HttpError(499, "the client has gone")  # ends the decoding: nobody waits for it
        text, sentence = job.places[index]
        data = {"text": text, "sentence": sentence, **pass_answer(job.model, now, latest.get(index))}
        latest[index] = now
        loop.call_soon_threadsafe(events.put_nowait, ("pass", data))

    job.on_pass = report
    service.worker.submit(job)
    job.done.add_done_callback(lambda _: loop.call_soon_threadsafe(events.put_nowait, None))

    async def send() -> AsyncIterator[str]:
        try:
            while True:
                left = service.limits.deadline - (time.perf_counter() - started)
                event = await asyncio.wait_for(events.get(), max(left, 0))
                if event is None:
                    break
                yield _event(*event)
            yield _last_event(job, started)
        except TimeoutError:
            yield _event("error", {"error": deadline_passed(service.limits.deadline).message})
        finally:
            job.done.cancel()

    return StreamingResponse(send(), media_type="text/event-stream")


def _last_event(job: Job, started: float) -> str:
    try:
        translations = job.done.result(timeout=0)
    except HttpError as error:
        return _event("error", {"error": error.message})
    except (Exception, asyncio.CancelledError):
        return _event("error", {"error": failed().message})
    return _event("result", translate_answer(job, translations, started))


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
