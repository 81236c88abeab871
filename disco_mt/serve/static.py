"""The page: files of the package, read once. No path of a request ever reaches the file system."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response

HERE = Path(__file__).parent
FOLDERS = {"": HERE / "page", "view/": HERE.parent / "views" / "assets"}  # as the page names them

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page may load and ask its own server, and nothing else."""


def page_routes(folders: dict[str, Path] = FOLDERS) -> APIRouter:
    """A route a file, and / for index.html."""
    router = APIRouter(include_in_schema=False)
    for prefix, folder in folders.items():
        for file in sorted(folder.glob("*")):
            if file.suffix in TYPES:
                _add(router, f"/{prefix}{file.name}", file)
    if (index := folders[""] / "index.html").is_file():
        _add(router, "/", index)
    return router


def _add(router: APIRouter, path: str, file: Path) -> None:
    content = file.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {
        "Content-Type": TYPES[file.suffix],
        "Content-Security-Policy": POLICY,
        "Cache-Control": "no-cache",  # kept, but asked for again: a 304 if nothing has changed
        "ETag": tag,
    }

    async def get(request: Request) -> Response:
        known = _tags(request.headers.get("if-none-match", ""))
        if tag in known:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers)

    router.add_api_route(path, get, methods=["GET", "HEAD"])


def _tags(header: str) -> Iterator[str]:
    return (tag.strip().removeprefix("W/") for tag in header.split(","))
