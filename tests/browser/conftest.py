"""A real Chromium and a real `disco serve` on loopback, one of each for all tests of this folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from serve_process import Served, serve

from small_model import make_small

sync_api = pytest.importorskip("playwright.sync_api", reason="browser tests need playwright (extra dev)")

CHROMIUM = os.environ.get("DISCO_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"


@pytest.fixture(scope="session")
def chromium() -> Iterator[object]:
    """The browser; `make browser` says how it is got."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"no Chromium at {CHROMIUM}: apt-get install chromium (or set DISCO_CHROMIUM)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def served(chromium: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with small models: real tokens, random weights."""
    folder = tmp_path_factory.mktemp("served")
    small = make_small(folder)
    with serve([small.disco, small.autoregressive], folder / "server.log") as running:
        yield running


@pytest.fixture
def open_page(chromium, served) -> Iterator[object]:
    """open_page(fragment, width=..., ...) -> a page. At the end, nothing may have failed or gone outside."""
    contexts, wrong = [], []

    def make(fragment: str = "", width: int = 1280, height: int = 900, **options: object) -> object:
        options = {"reduced_motion": "reduce"} | options  # nothing moves while it is looked at
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: message.type == "error" and wrong.append(message.text))
        page.on("request", lambda request: request.url.startswith(served.url) or wrong.append(request.url))
        page.goto(served.url + fragment)
        return page

    make.wrong = wrong  # type: ignore[attr-defined]
    yield make
    for context in contexts:
        context.close()
    assert wrong == []
