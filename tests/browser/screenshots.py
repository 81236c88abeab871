"""The pictures of the page in docs/screenshots: make screenshots

python tests/browser/screenshots.py [MODEL]: a real browser, a real server, by default the shipped model.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from serve_process import serve

from disco_mt.translator import DEFAULT_MODEL

OUT = Path(__file__).parents[2] / "docs" / "screenshots"
CHROMIUM = "/usr/bin/chromium"
TEXT = "We visited his children yesterday because they were sick."
PARAGRAPH = "The apartment is expensive, so she cannot buy it. Our mother stayed in Berlin yesterday."


def main(model: str) -> None:
    """Take them all."""
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        with serve([model], Path(folder) / "server.log") as served:
            for name, take in PICTURES.items():
                take(browser, served.url, OUT / f"{name}.png")
        browser.close()


def translation(browser: Browser, url: str, out: Path) -> None:
    """What one sees first: a sentence, its translation, its passes, what a word saw."""
    page = _open(browser, url, TEXT, height=900)
    page.locator("#translation .spoken").nth(3).hover()
    _save(page, out)


def pinned(browser: Browser, url: str, out: Path) -> None:
    """A word that was replaced, what became of the rest, and the window in which the next is pinned."""
    page = _open(browser, url, TEXT, height=880)
    page.locator("#translation .spoken").nth(3).click()
    page.keyboard.type("seine")
    page.keyboard.press("Enter")
    page.wait_for_selector("body:not(.waiting) #pins li")
    page.wait_for_timeout(300)
    page.locator("#translation .spoken").nth(1).click()
    _save(page, out)


def compared(browser: Browser, url: str, out: Path) -> None:
    """Both strategies side by side, in the dark."""
    page = _open(browser, url, TEXT, height=1010, scheme="dark", fragment="&strategy=both&iterations=3")
    page.wait_for_selector(".compared")
    page.mouse.move(0, 0)
    _save(page, out)


def narrow(browser: Browser, url: str, out: Path) -> None:
    """A telephone."""
    page = _open(browser, url, PARAGRAPH, width=360, height=780)
    _save(page, out)


PICTURES: dict[str, Callable[[Browser, str, Path], None]] = {
    "translation": translation,
    "pinned": pinned,
    "compared": compared,
    "narrow": narrow,
}


def _open(
    browser: Browser,
    url: str,
    text: str,
    *,
    width: int = 1200,
    height: int,
    scheme: str = "light",
    fragment: str = "",
) -> Page:
    page = browser.new_page(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        device_scale_factor=1.5,
    )
    page.goto(f"{url}#text={text.replace(' ', '+')}{fragment}")
    page.wait_for_selector("body:not(.waiting) #sentences .pass")
    page.evaluate("document.activeElement.blur()")
    return page


def _save(page: Page, out: Path) -> None:
    """256 colours are enough for type on paper: a third of the bytes."""
    page.wait_for_timeout(700)  # until what moves has come to rest
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(palette=_palette(picture), dither=Image.Dither.NONE).save(out, optimize=True)
    print(f"{out.name}: {out.stat().st_size / 1024:.0f} KB")
    page.close()


def _palette(picture: Image.Image) -> Image.Image:
    """The commonest colours as they are, so that no surface changes; the others spread over the rare ones."""
    common = sorted(picture.getcolors(maxcolors=1 << 24) or [], reverse=True)[:128]
    exact = [value for _, colour in common for value in colour]
    spread = picture.quantize(128, Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette((exact + spread)[: 3 * 256])
    return palette


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_MODEL)
