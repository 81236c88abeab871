"""HTML: what a translator may change, and what it must leave alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape, unescape
from html.parser import HTMLParser

_KEPT = ("script", "style", "code", "pre", "textarea")  # their content is not translated


@dataclass
class Markup:
    """HTML in pieces: `texts` are translated one by one, the rest stays as it is."""

    pieces: list[str] = field(default_factory=list)
    places: list[int] = field(default_factory=list)  # indices of the texts among the pieces

    @staticmethod
    def of(html: str) -> Markup:
        """Split HTML, well-formed or not; joined unchanged, the pieces are the same page."""
        splitter = _Splitter(html)
        splitter.feed(html)
        splitter.close()
        splitter.copy(len(html))  # what is left at the end
        return splitter.markup

    @property
    def texts(self) -> list[str]:
        """What is to be translated, with entities resolved."""
        return [unescape(self.pieces[place]).strip() for place in self.places]

    def filled(self, texts: list[str]) -> str:
        """The HTML with these texts instead; white space around them stays."""
        pieces = list(self.pieces)
        for place, text in zip(self.places, texts, strict=True):
            old = pieces[place]
            before = old[: len(old) - len(old.lstrip())]
            after = old[len(old.rstrip()) :]
            pieces[place] = before + escape(text, quote=False) + after
        return "".join(pieces)


class _Splitter(HTMLParser):
    """Finds where text begins and ends; pieces are copied from the original, not written again."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=False)
        self.html = html
        self.markup = Markup()
        self.kept = 0  # open elements of _KEPT
        self.done = 0  # characters copied
        self.in_text = False
        self.starts = [0]  # of each line
        for place, character in enumerate(html):
            if character == "\n":
                self.starts.append(place + 1)

    def _at(self) -> int:
        line, column = self.getpos()
        return self.starts[line - 1] + column

    def _begin(self, text: bool) -> None:
        if text == self.in_text:
            return
        self.copy(self._at())
        self.in_text = text

    def copy(self, end: int) -> None:
        piece = self.html[self.done : end]
        if piece:
            if self.in_text and piece.strip():
                self.markup.places.append(len(self.markup.pieces))
            self.markup.pieces.append(piece)
        self.done = end

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._begin(text=False)
        self.kept += tag in _KEPT

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._begin(text=False)

    def handle_endtag(self, tag: str) -> None:
        self._begin(text=False)
        self.kept = max(0, self.kept - (tag in _KEPT))

    def handle_data(self, data: str) -> None:
        self._begin(text=not self.kept)

    def _not_text(self, content: str) -> None:
        self._begin(text=False)

    handle_entityref = handle_charref = handle_data  # type: ignore[assignment]  # parameters' names differ
    handle_comment = handle_decl = handle_pi = unknown_decl = _not_text  # type: ignore[assignment]
