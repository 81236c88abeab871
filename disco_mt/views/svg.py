"""A trace as a static picture for a README, a paper or a talk.

One row per pass, words as boxes: the fuller the colour, the surer the word; an outline where it changed; and
for one chosen word, lines from the words that it observed. Light colours are plain attributes that every
program reads, dark ones a style that browsers add. Text widths are estimated on the safe side.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from disco_mt.views.view import (
    TraceView,
    Word,
    facts,
    has_pins,
    reads_right_to_left,
    same_length,
    visible,
    words_by_pass,
)

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', Arial, sans-serif"
SIZE = 16  # font size in px
MARGIN, LABEL = 28, 34  # around everything; for the numbers of the passes
PAD, GAP, RING = 9, 9, 2  # inside and between boxes; from a box to the ring around the chosen word
BOX, LINE, ROW = 32, 40, 50  # heights: a box, a wrapped line, a pass
LINKS = 22  # more room between passes where lines are drawn
MAX_WIDTH = 1240  # longer sentences are wrapped

DARK = """
@media (prefers-color-scheme: dark) {
  .paper { fill: #181922; stroke: #2b2c3a } .ink { fill: #ececf4 } .soft { fill: #9b9bb0 }
  .sure { fill: #9a97ff } .kept { stroke: #56567a } .changed { stroke: #ff9454 } .chosen { stroke: #ececf4 }
  .observed { fill: #f2cc3d } .seen { fill: #201a00 } .link { stroke: #d8b62f }
  .pinned { fill: #4fd1c1 } .given { fill: #05201d }
}"""


@dataclass(frozen=True)
class Columns:
    left: list[float]
    width: list[float]
    line: list[int]

    @property
    def lines(self) -> int:
        return max(self.line, default=0) + 1

    def middle(self, n: int) -> float:
        return self.left[n] + self.width[n] / 2

    @property
    def right(self) -> float:
        return max((x + w for x, w in zip(self.left, self.width, strict=True)), default=0.0)


def render_svg(source: str, traces: Sequence[TraceView], position: int | None = None) -> str:
    """The winning candidate of every trace, one below the other as in the paper's example figure.

    position: a word, from 0, whose observed words are highlighted in the pass where it read them.
    """
    blocks, y = [], MARGIN + 20.0
    heading = wrap_text(visible(source), MAX_WIDTH - 2 * MARGIN, 22)
    for line in heading:
        blocks.append(_text(MARGIN, y, line, Type(size=22, weight=650)))
        y += 30
    width = max([_width(line, 22) + 2 * MARGIN for line in heading], default=0.0)
    for view in traces:
        block, y, right = _trace(view, position, y + 16)
        blocks.append(block)
        width = max(width, right + MARGIN)
    legend, right = _legend(y + 8, position is not None, has_pins(traces))
    return _document([*blocks, legend], max(width, right + MARGIN), y + 8 + BOX + MARGIN - 8, source)


def _trace(view: TraceView, position: int | None, top: float) -> tuple[str, float, float]:
    """One strategy: its elements, the y below it, its right edge."""
    rows = words_by_pass(view, None, position)
    columns = _columns(rows, reads_right_to_left(view.text))
    lines = max((its.lines for its in columns), default=1)
    linked = position is not None and lines == 1  # links across wrapped rows would only confuse
    step = ROW + (lines - 1) * LINE + (LINKS if linked else 0)
    title = visible(view.strategy)
    after = MARGIN + _width(title, 17, bold=True) + 12
    parts = [
        _text(MARGIN, top, title, Type(size=17, weight=650)),
        _text(after, top, facts(view), Type("soft", size=15)),
    ]
    y = top + 16
    for number, row in enumerate(rows):
        if number and linked and position is not None and position < len(row):
            observed = [n for n, word in enumerate(rows[number - 1]) if word.observed]
            starts = [columns[number - 1].middle(n) for n in observed]
            parts.append(_links(starts, columns[number].middle(position), y))
        parts.append(_text(MARGIN + 10, y + 21, str(number + 1), Type("soft", size=14, anchor="middle")))
        parts += [_word(word, columns[number], n, y) for n, word in enumerate(row)]
        y += step
    right = max([its.right for its in columns] + [after + _width(facts(view), 15)])
    return "\n".join(parts), y + 8, right


def _columns(rows: Sequence[Sequence[Word]], right_to_left: bool) -> list[Columns]:
    if same_length(rows):
        return [place(rows, right_to_left)] * len(rows)
    return [place([row], right_to_left) for row in rows]


def place(rows: Sequence[Sequence[Word]], right_to_left: bool = False) -> Columns:
    """One column per position, as wide as its widest word; a new line where the picture gets too wide."""
    left: list[float] = []
    widths = [
        max(_width(word.text, SIZE, bold=True) for word in column) for column in zip(*rows, strict=True)
    ]
    widths = [max(width + 2 * PAD, BOX) for width in widths]
    lines: list[int] = []
    x, line = float(MARGIN + LABEL), 0
    for width in widths:
        if x + width > MAX_WIDTH - MARGIN and x > MARGIN + LABEL:
            x, line = float(MARGIN + LABEL), line + 1
        left.append(x)
        lines.append(line)
        x += width + GAP
    if right_to_left:  # the first one at the right
        edges = MARGIN + LABEL + Columns(left, widths, lines).right
        left = [edges - x - width for x, width in zip(left, widths, strict=True)]
    return Columns(left, widths, lines)


def _word(word: Word, columns: Columns, n: int, row: float) -> str:
    x, y, width = columns.left[n], row + columns.line[n] * LINE, columns.width[n]
    boxes = []
    if word.pinned:
        boxes.append(_box(x, y, width, "pinned", 'fill="#0f766e"'))
    elif word.observed:
        boxes.append(_box(x, y, width, "observed", 'fill="#ffe066"'))
    elif word.predicted:
        opacity = 0.04 + 0.4 * word.probability**2
        boxes.append(_box(x, y, width, "sure", f'fill="#4f46e5" fill-opacity="{opacity:.3f}"'))
    else:
        dashes = 'fill="none" stroke="#c9c7ee" stroke-width="1.5" stroke-dasharray="2 3"'
        boxes.append(_box(x, y, width, "kept", dashes))
    if word.changed:
        boxes.append(_box(x, y, width, "changed", 'fill="none" stroke="#d9480f" stroke-width="2"'))
    if word.chosen:
        boxes.append(_ring(x, y, width))
    ink = "given" if word.pinned else "seen" if word.observed else "ink"
    look = Type(ink, weight=650 if word.changed else 400, anchor="middle")
    return "".join([*boxes, _text(x + width / 2, y + 21.5, word.text, look)])


def _links(starts: Sequence[float], x: float, row: float) -> str:
    """Curves from the words that the chosen one saw (in the pass before) down to it, at x."""
    top, end = row - ROW - LINKS + BOX, row - RING
    middle = (top + end) / 2
    curves = [
        f"M{start:.1f} {top:.1f}C{start:.1f} {middle:.1f} {x:.1f} {middle:.1f} {x:.1f} {end:.1f}"
        for start in starts
    ]
    return f'<path class="link" d="{"".join(curves)}" fill="none" stroke="#e0b400" stroke-width="1.5"/>'


def _legend(y: float, chosen: bool, pinned: bool) -> tuple[str, float]:
    samples = [
        Word("unsure", 0.3),
        Word("sure", 1.0),
        Word("changed", 0.7, changed=True),
        Word("kept", 0.7, predicted=False),
    ]
    samples += [Word("chosen", 0.7, chosen=True), Word("observed", 0.7, observed=True)] if chosen else []
    samples += [Word("pinned", 1.0, pinned=True)] if pinned else []
    columns = place([samples])
    return "\n".join(_word(word, columns, n, y) for n, word in enumerate(samples)), columns.right


def _document(parts: Sequence[str], width: float, height: float, source: str) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    label = escape(f"How “{visible(source)}” is translated, pass by pass")
    paper = (
        f'<rect class="paper" x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="14" '
        'fill="#ffffff" stroke="#e3e3ec"/>'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">'
    return "\n".join([head, f"<title>{label}</title>", f"<style>{DARK}\n</style>", paper, *parts, "</svg>\n"])


def _box(x: float, y: float, width: float, name: str, paint: str) -> str:
    return f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{BOX}" rx="7" {paint}/>'


def _ring(x: float, y: float, width: float) -> str:
    where = f'x="{x - RING - 1:.1f}" y="{y - RING - 1:.1f}"'
    size = f'width="{width + 2 * RING + 2:.1f}" height="{BOX + 2 * RING + 2}" rx="{8 + RING}"'
    return f'<rect class="chosen" {where} {size} fill="none" stroke="#17171f" stroke-width="2"/>'


INK = {"ink": "#17171f", "soft": "#646475", "seen": "#2b2400", "given": "#ffffff"}


@dataclass(frozen=True)
class Type:
    ink: str = "ink"  # a key of INK
    size: int = SIZE
    weight: int = 400
    anchor: str = "start"


def _text(x: float, y: float, text: str, look: Type) -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{look.anchor}"'
    font = f'font-size="{look.size}" font-weight="{look.weight}" fill="{INK[look.ink]}"'
    return f'<text class="{look.ink}" {where} {font}>{escape(text)}</text>'


def wrap_text(text: str, width: float, size: int) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and _width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _width(text: str, size: int, bold: bool = False) -> float:
    """An estimate that is rather too wide: boxes may be roomy, but must never overlap."""
    return sum(_advance(character) for character in text) * size * (1.06 if bold else 1.0)


def _advance(character: str) -> float:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    if character in "ilIjtf.,:;!|'’·()[]- ":
        return 0.37
    if character in "mwMW@%—…" or ord(character) >= 0x1F000:
        return 0.98
    return 0.72 if character.isupper() else 0.61
