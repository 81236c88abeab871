"""The application: routes, and how refusals are told."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from disco_mt.core.errors import UserError
from disco_mt.serve.docs_page import docs_routes
from disco_mt.serve.http_errors import Refusal
from disco_mt.serve.libretranslate import libretranslate_routes
from disco_mt.serve.middleware import Guard
from disco_mt.serve.service import Service
from disco_mt.serve.static import page_routes
from disco_mt.serve.status import status_routes
from disco_mt.serve.v1 import v1_routes
from disco_mt.text.lines import well_formed
from disco_mt.version import __version__

_SHOWN = 100  # characters of a field's name that a message repeats


def make_app(service: Service) -> Guard:
    """The ASGI application; its lifespan starts and stops the worker."""
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # a line a broken form: clients could flood
    app = FastAPI(
        title="Disco",
        version=__version__,
        summary="Translate every word of a sentence at once.",
        docs_url=None,  # FastAPI's own page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lambda _: _lifespan(service),
    )
    for routes in (v1_routes, libretranslate_routes, status_routes):
        app.include_router(routes(service))
    app.include_router(docs_routes(app))
    app.include_router(page_routes())
    if service.access.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=service.access.origins, allow_methods=["*"], allow_headers=["*"]
        )
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(UserError, _mistaken)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    paths = frozenset(path for path in app.openapi()["paths"])
    worker = service.worker
    return Guard(app, service.limits, service.access, service.metrics, paths, lambda: worker.is_draining)


@asynccontextmanager
async def _lifespan(service: Service) -> AsyncIterator[None]:
    service.worker.start()
    yield
    service.worker.stop()
    for model in service.models.all:
        model.decoder.close()


async def _refused(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Refusal)  # what it is registered for
    return JSONResponse({"error": error.message}, error.status, error.headers)


async def _mistaken(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": well_formed(str(error))}, 422)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Which fields are wrong, and how; without what was sent."""
    assert isinstance(error, RequestValidationError)
    for each in error.errors():
        if each["type"] == "json_invalid":
            said = f"the body is no JSON: {each['ctx']['error']} at character {each['loc'][-1]}"
            return JSONResponse({"error": well_formed(said)}, 400)
    if any(each["loc"] == ("body",) for each in error.errors()):  # a form, a string, nothing at all
        said = "the body must be a JSON object, sent with Content-Type: application/json; see /docs"
        return JSONResponse({"error": said}, 422)
    problems = [f"{_place(each['loc'])}: {each['msg']}" for each in error.errors()[:5]]
    return JSONResponse({"error": well_formed("; ".join(problems))}, 422)


def _place(location: tuple[int | str, ...]) -> str:
    parts = [str(part)[:_SHOWN] for part in location if part != "body"]
    parts = [part for part in parts if not part.startswith(("constrained-str", "list["))]  # pydantic's own
    return ".".join(parts) or "the body"


async def _http_error(_: Request, error: Exception) -> JSONResponse:
    """Unknown paths, wrong methods, bodies that are no JSON."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail).lower()}, error.status_code, error.headers)
