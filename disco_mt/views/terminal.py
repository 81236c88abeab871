"""The passes of a translation in the terminal, as in the paper's example figure.

Shade is confidence, changed words are marked, and for a chosen position the words that it observed are
highlighted. Without colour the same marks are made with plain characters, so that a log reads as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.console import Console
from rich.text import Text

from disco_mt.views.view import (
    TraceView,
    Word,
    candidate_passes,
    facts,
    has_pins,
    same_length,
    visible,
    words_by_pass,
)

GAP = 4  # cells between two traces that stand side by side
# Text and background are both set everywhere, so that dark and light terminals show the same.
OBSERVED = "#000000 on #fde047"
CHOSEN = "bold #1f49c9 on #ffffff"
PINNED = "#ffffff on #0f766e"
SHADES = ("#5b5f6b", "#505c78", "#435992", "#3353ad", "#1f49c9")  # behind white text, unsure to sure


def print_traces(
    console: Console,
    source: str,
    traces: Sequence[TraceView],
    candidate: int | None = None,
    position: int | None = None,
) -> None:
    """Print to a console, at its width, in colour where it has colour."""
    colour = console.color_system is not None and not console.no_color
    for line in render_terminal(
        source, traces, candidate=candidate, position=position, width=console.width, colour=colour
    ):
        console.print(line, soft_wrap=True, highlight=False)


def render_terminal(
    source: str,
    traces: Sequence[TraceView],
    *,
    candidate: int | None = None,
    position: int | None = None,
    width: int = 100,
    colour: bool = True,
) -> list[Text]:
    """The lines of all traces: side by side where there is room, one below the other where there is not.

    candidate: the length candidate to show, by default the one that won. position: a word, from 0, whose
    observed words are highlighted (in the pass before, where it read them).
    """
    blocks = [_block(view, candidate, position, width, colour) for view in traces]
    lines = _flow([Text(word) for word in visible(source).split()], _title("source  ", colour), width)
    lines.append(Text())
    if sum(map(_width, blocks)) + GAP * (len(blocks) - 1) <= width:
        lines += _side_by_side(blocks)
    else:
        lines += [line for block in blocks for line in (*block, Text())][:-1]
    lines += _legend(position is not None, has_pins(traces), width, colour)
    for line in lines:
        line.rstrip()
    return lines


def _block(
    view: TraceView, candidate: int | None, position: int | None, width: int, colour: bool
) -> list[Text]:
    rows = words_by_pass(view, candidate, position)
    marked = [[_mark(word, colour) for word in row] for row in rows]
    label = len(str(len(rows))) + 2
    if same_length(rows):  # else words move, and columns would only suggest that they do not
        columns = [max(word.cell_len for word in column) for column in zip(*marked, strict=True)]
        if label + sum(columns) + len(columns) <= width:  # else: flowing text, columns would only break
            marked = [[_padded(word, n) for word, n in zip(row, columns, strict=True)] for row in marked]
    lines = _heading(view, candidate, width, colour)
    for number, row in enumerate(marked, start=1):
        lines.extend(_flow(row, _title(f"{number:>{label - 2}}  ", colour), width))
    return [*lines, *_flow([Text(word) for word in visible(view.text).split()], _title("=> ", colour), width)]


def _heading(view: TraceView, candidate: int | None, width: int, colour: bool) -> list[Text]:
    passes = candidate_passes(view, candidate)
    score = f" · {len(passes[-1].tokens)} words, score {passes[-1].score:.2f}" if passes else ""
    title = [_title(word, colour) for word in visible(view.strategy).split()]
    notes = [Text(word, style="dim" if colour else "") for word in f"{facts(view)}{score}".split()]
    return _flow([*title, *notes], Text(), width)


def _mark(word: Word, colour: bool) -> Text:
    """Colour: shade, underline, background. Plain: [changed], {observed}, >chosen<, =pinned=, unsure?."""
    if not colour:
        text = f"{word.text}?" if word.probability < 0.5 else word.text
        text = f"[{text}]" if word.changed else text
        text = f"={text}=" if word.pinned else text
        text = f"{{{text}}}" if word.observed else text
        return Text(f">{text}<" if word.chosen else text)
    style = PINNED if word.pinned else OBSERVED if word.observed else shade(word.probability)
    style = CHOSEN if word.chosen else style
    return Text(word.text, style=f"{style} bold underline" if word.changed else style)


def shade(probability: float) -> str:
    """A rich style for a confidence; the ramp is steepest where most words are, above one half."""
    level = int(len(SHADES) * max(0.0, 2 * probability - 1))
    return f"#ffffff on {SHADES[min(level, len(SHADES) - 1)]}"


def _legend(chosen: bool, pinned: bool, width: int, colour: bool) -> list[Text]:
    if colour:
        entries = [Text("unsure", shade(0.0)), Text("sure", shade(1.0)), Text("changed", "bold underline")]
        if chosen:
            entries.append(Text("chosen", CHOSEN))
            entries.append(Text("observed", OBSERVED))
        entries += [Text("pinned", PINNED)] if pinned else []
    else:
        entries = [Text("[changed]"), Text("unsure?")]
        entries += [Text(">chosen<"), Text("{observed}")] if chosen else []
        entries += [Text("=pinned=")] if pinned else []
    return [Text(), *_flow(entries, _title("marks   ", colour), width)]


def _title(text: str, colour: bool) -> Text:
    return Text(text, style="bold" if colour else "")


def _padded(word: Text, cells: int) -> Text:
    """Padding is outside the marks: an underline ends with its word."""
    return Text.assemble(word, " " * (cells - word.cell_len))


def _flow(words: Sequence[Text], label: Text, width: int) -> list[Text]:
    """Words set one after the other, broken where the terminal ends, indented under the first."""
    indent = label.cell_len
    lines = [label.copy()]
    for word in words:
        empty = lines[-1].cell_len <= indent
        if not empty and lines[-1].cell_len + 1 + word.cell_len > width:
            lines.append(Text(" " * indent))
            empty = True
        lines[-1].append_text(word if empty else Text.assemble(" ", word))
    return lines


def _width(block: Sequence[Text]) -> int:
    return max(line.cell_len for line in block)


def _side_by_side(blocks: Sequence[Sequence[Text]]) -> list[Text]:
    widths = [_width(block) for block in blocks]
    rows = zip_longest(*blocks, fillvalue=Text())
    gap = Text(" " * GAP)
    return [gap.join(_padded(line, cells) for line, cells in zip(row, widths, strict=True)) for row in rows]
