"""The page: files of the package, read once. No path of a request ever reaches the file system."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cached_property
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


@dataclass(frozen=True)
class Form:
    """A file as it is sent: plain, or compressed once and for all."""

    content: bytes
    encoding: str = ""

    @cached_property
    def tag(self) -> str:
        """Its ETag. A compressed form has another: they are not the same bytes."""
        return f'"{hashlib.sha256(self.content).hexdigest()[:32]}"'

    def headers(self, suffix: str) -> dict[str, str]:
        """Kept by browsers, but asked for again: a 304 if nothing has changed."""
        return {
            "Content-Type": TYPES[suffix],
            "Content-Security-Policy": POLICY,
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
            "ETag": self.tag,
        } | ({"Content-Encoding": self.encoding} if self.encoding else {})


def _add(router: APIRouter, path: str, file: Path) -> None:
    plain = Form(file.read_bytes())
    small = Form(gzip.compress(plain.content, mtime=0), "gzip")
    if len(small.content) >= len(plain.content):
        small = plain

    async def get(request: Request) -> Response:
        form = small if takes_gzip(request.headers.get("accept-encoding", "")) else plain
        headers = form.headers(file.suffix)
        if form.tag in _listed(request.headers.get("if-none-match", "")):
            return Response(status_code=304, headers=headers)
        return Response(form.content, headers=headers)

    router.add_api_route(path, get, methods=["GET", "HEAD"])


def takes_gzip(accepted: str) -> bool:
    """Does an Accept-Encoding header allow gzip? "gzip;q=0" forbids it."""
    for each in _listed(accepted.lower()):
        name, _, weight = each.replace(" ", "").partition(";q=")
        if name in ("gzip", "*"):
            return not weight or weight.strip("0.") != ""
    return False


def _listed(header: str) -> list[str]:
    return [each.strip().removeprefix("W/") for each in header.split(",")]
