"""The paragraphs and headings of a page of the LibreOffice help (HTML), by id."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

_TEXT = {"p", "h1", "h2", "h3", "h4", "h5", "h6"}
_CODE = {"code", "codeintable", "smathcode"}  # classes of paragraphs that are not translated
_OTHER_SYSTEM = "MAC"  # class of text that only a Mac shows, next to that of other systems
_EMPTY = {"br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}  # have no end tag

Key = tuple[str, int]  # the id of an element, and how often it occurred before on the page


def paragraphs(page: str) -> dict[Key, str]:
    """The text of paragraphs and headings with an id, white space collapsed, without code."""
    parser = _Parser()
    parser.feed(page)
    parser.close()
    before: Counter[str] = Counter()
    result: dict[Key, str] = {}
    for name, text in parser.found:
        if text:
            result[name, before[name]] = text
        before[name] += 1  # empty ones count, as they do in the other language
    return result


class _Parser(HTMLParser):
    """Collects the text of the elements of interest, without what only a Mac shows."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._name: str | None = None  # of the current element
        self._text: list[str] = []
        self._hidden = 0  # depth inside an element that is left out

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        classes = (attributes.get("class") or "").split()
        if self._hidden or _OTHER_SYSTEM in classes:
            self._hidden += tag not in _EMPTY
        elif tag in _TEXT:
            self._end()
            self._name = None if _CODE & {*classes} else attributes.get("id")
        elif tag == "br":
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._hidden -= tag not in _EMPTY
        elif tag in _TEXT:
            self._end()

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._text.append(data)

    def _end(self) -> None:
        if self._name:
            self.found.append((self._name, " ".join("".join(self._text).split())))
        self._name, self._text = None, []
