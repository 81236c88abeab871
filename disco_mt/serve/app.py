"""The application: routes and error responses."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from disco_mt.core.errors import UserError
from disco_mt.serve.http_errors import HttpError
from disco_mt.serve.libretranslate import libretranslate_routes
from disco_mt.serve.middleware import RequestMiddleware
from disco_mt.serve.monitoring import monitoring_routes
from disco_mt.serve.service import Service
from disco_mt.serve.static import docs_route, page_routes
from disco_mt.serve.v1 import v1_routes
from disco_mt.text.lines import well_formed
from disco_mt.version import __version__

_SHOWN = 100  # characters of a field's name that a message repeats


def make_app(service: Service) -> RequestMiddleware:
    """The ASGI application; its lifespan starts and stops the worker."""
    logging.getLogger("python_multipart").setLevel(
        logging.ERROR
    )  # one line per broken form: clients could flood the log
    app = FastAPI(
        title="Disco",
        version=__version__,
        summary="Translate every word of a sentence at once.",
        docs_url=None,  # FastAPI's own page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lambda _: _lifespan(service),
    )
    for routes in (v1_routes, libretranslate_routes, monitoring_routes):
        app.include_router(routes(service))
    app.router.routes += [docs_route(app), *page_routes()]
    if service.access.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=service.access.origins, allow_methods=["*"], allow_headers=["*"]
        )
    app.add_exception_handler(HttpError, _http_error)
    app.add_exception_handler(UserError, _user_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _starlette_error)
    return RequestMiddleware(app, service, frozenset(app.openapi()["paths"]))


@asynccontextmanager
async def _lifespan(service: Service) -> AsyncIterator[None]:
    service.worker.start()
    yield
    service.worker.stop()
    for model in service.models.all:
        model.decoder.close()


async def _http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HttpError)  # what it is registered for
    return JSONResponse({"error": error.message}, error.status, error.headers)


async def _user_error(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"error": well_formed(str(error))}, 422)


async def _starlette_error(_: Request, error: Exception) -> JSONResponse:
    """Unknown paths, wrong methods, unreadable bodies."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail).lower()}, error.status_code, error.headers)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Which fields are wrong, and how; without the values that were sent."""
    assert isinstance(error, RequestValidationError)
    problems = error.errors()
    for problem in problems:
        if problem["type"] == "json_invalid":
            message = f"the body is not JSON: {problem['ctx']['error']} at character {problem['loc'][-1]}"
            return JSONResponse({"error": well_formed(message)}, 400)
    if any(problem["loc"] == ("body",) for problem in problems):  # a form, a string, nothing at all
        message = "the body must be a JSON object, sent with Content-Type: application/json; see /docs"
        return JSONResponse({"error": message}, 422)
    message = "; ".join(f"{_field(problem['loc'])}: {_message(problem)}" for problem in problems[:5])
    return JSONResponse({"error": well_formed(message)}, 422)


def _field(location: tuple[int | str, ...]) -> str:
    parts = [str(part)[:_SHOWN] for part in location if part != "body"]
    parts = [part for part in parts if not part.startswith(("constrained-str", "list["))]  # pydantic's own
    return ".".join(parts) or "the body"


def _message(problem: dict[str, Any]) -> str:
    if problem["type"] == "extra_forbidden" and problem["loc"][-1] in ("settle", "read"):
        return 'replaced by effort: use "effort": "high"'
    return str(problem["msg"])
