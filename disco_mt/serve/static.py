"""The page: files of the package. See page/ and ../views/assets/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
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
