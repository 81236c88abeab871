"""The page, whose files are in page/ and ../views/assets/, and /docs."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

HERE = Path(__file__).parent
FOLDERS = {"/page": HERE / "page", "/view": HERE.parent / "views" / "assets"}  # as the page calls them
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page may load from and ask its own server, and nothing else."""


class PageFiles(StaticFiles):
    """Browsers keep the files, but ask each time: 304 if nothing has changed."""

    def file_response(self, *args: Any, **more: Any) -> Response:
        response = super().file_response(*args, **more)
        response.headers.update({"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"})
        return response


def page_routes() -> list[BaseRoute]:
    """/ is index.html; everything else is in a folder of its own."""
    index = GZipMiddleware(PageFiles(directory=FOLDERS["/page"], html=True))
    folders = [Mount(path, GZipMiddleware(PageFiles(directory=folder))) for path, folder in FOLDERS.items()]
    return [Route("/", index, include_in_schema=False), *folders]


STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; border-top: 1px solid #8886; padding-top: 1rem; }
code, pre { font: 0.875rem/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; padding: 0.75rem; background: #8881; border-radius: 0.375rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; padding: 0.25rem 0.75rem 0.25rem 0; vertical-align: top; }
.method { font-weight: 700; margin-right: 0.5rem; }
"""
_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
DOCS_POLICY = f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; frame-ancestors 'none'"


def docs_route(app: FastAPI) -> Route:
    """/docs: the OpenAPI description as a plain page: no script, no resource of another server."""
    headers = {"Content-Security-Policy": DOCS_POLICY, "Cache-Control": "no-cache"}

    async def docs(_: Request) -> HTMLResponse:
        return HTMLResponse(render(app.openapi()), headers=headers)

    return Route("/docs", docs, include_in_schema=False)


def render(description: dict[str, Any]) -> str:
    info, schemas = description["info"], description.get("components", {}).get("schemas", {})
    operations = "".join(
        _operation(path, method, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    )
    components = "".join(
        f"<h3 id='{escape(name)}'>{escape(name)}</h3>{_schema(schema)}" for name, schema in schemas.items()
    )
    title = f"{escape(info['title'])} {escape(info['version'])}: API"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>"
        f"<meta name=viewport content='width=device-width'><style>{STYLE}</style>"
        f"<h1>{title}</h1><p>{escape(info.get('summary', ''))} "
        f"For machines: <a href='openapi.json'>openapi.json</a>.</p>{operations}<h2>Schemas</h2>{components}"
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    bodies = operation.get("requestBody", {}).get("content", {})
    request = "".join(
        f"<li><code>{escape(kind)}</code>: {_named(body)}</li>" for kind, body in bodies.items()
    )
    answers = "".join(
        f"<tr><td><code>{escape(str(status))}</code><td>{escape(answer.get('description', ''))}"
        f"<td>{', '.join(_named(body) for body in answer.get('content', {}).values())}"
        for status, answer in sorted(operation["responses"].items())
    )
    return (
        f"<h2><span class=method>{method.upper()}</span><code>{escape(path)}</code></h2>"
        f"<p>{escape(operation.get('description', ''))}</p>"
        + (f"<p>Body</p><ul>{request}</ul>" if request else "")
        + f"<table><tr><th>Status<th>When<th>Body{answers}</table>"
    )


def _named(body: dict[str, Any]) -> str:
    schema = body.get("schema", {})
    name = schema.get("$ref", "").rpartition("/")[2]
    return f"<a href='#{escape(name)}'>{escape(name)}</a>" if name else escape(str(schema.get("title", "")))


def _schema(schema: dict[str, Any]) -> str:
    fields = json.dumps(schema.get("properties", {}), indent=1)
    return f"<p>{escape(schema.get('description', ''))}</p><pre>{escape(fields)}</pre>"
