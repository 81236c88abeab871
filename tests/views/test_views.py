"""The views of a trace: what they say, that they stay in their place, and that no text can break out."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from rich.console import Console

import trace_example as example
from disco_mt.core.errors import UserError
from disco_mt.decoding.results import CandidatePass, Trace
from disco_mt.views import TraceView, print_traces, render_html, render_svg, render_terminal
from disco_mt.views.html import asset
from disco_mt.views.svg import MARGIN, MAX_WIDTH
from disco_mt.views.view import changed_words, reads_right_to_left, to_data, visible, words_by_pass

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--",
    "<img src=x onerror=alert(1)>",
    "&amp;",
    "\x1b[31m\x00",
    "{{data}}",
]
SVG = "{http://www.w3.org/2000/svg}"


def one_pass(*words: str, strategy: str = "easy-first") -> TraceView:
    nothing: tuple[int, ...] = ()
    only = CandidatePass(words, (0.5,) * len(words), (nothing,) * len(words), (True,) * len(words), -0.69)
    trace = Trace(strategy, (len(words),), (-0.1,), ((only,),), (0,))
    return TraceView(strategy, trace, " ".join(words), steps=1)


def plain(traces: list[TraceView], **options: int | None) -> list[str]:
    return [line.plain for line in render_terminal(example.SOURCE, traces, colour=False, **options)]


# What happened


def test_changed_words_are_those_that_differ_from_the_pass_before():
    first, second, third = (candidates[0].tokens for candidates in example.easy_first().trace.passes)
    assert not any(changed_words(None, first))
    assert [n for n, changed in enumerate(changed_words(first, second)) if changed] == [3, 4]
    assert not any(changed_words(second, third))


def test_observed_words_are_marked_in_the_pass_where_they_were_read():
    rows = words_by_pass(example.mask_predict(), None, position=3)
    observed = [[n for n, word in enumerate(row) if word.observed] for row in rows]
    # pass 2 read the words kept from pass 1; in pass 4 the chosen word was kept, so it read nothing in pass 3
    assert observed == [[0, 1, 6, 7, 8, 10], [0, 1, 5, 6, 7, 8, 9, 10], [], []]
    assert [[n for n, word in enumerate(row) if word.chosen] for row in rows] == [[3]] * 4


@pytest.mark.parametrize("bad", [-1, 11])
def test_a_position_outside_the_sentence_is_refused(bad):
    with pytest.raises(UserError, match=rf"position must be between 0 and 10 for mask-predict, got {bad}"):
        render_svg(example.SOURCE, example.both(), bad)


def test_a_candidate_that_does_not_exist_is_refused():
    with pytest.raises(UserError, match="candidate must be between 0 and 1"):
        plain(example.both(), candidate=2)


# Passes of different lengths


def growing() -> TraceView:
    """A decoder that inserts and deletes."""
    said = ["", "Das ist", "Das Haus ist ist alt", "Das Haus ist alt", "Das alte Haus ist sehr alt"]
    passes = []
    for words in map(str.split, said):
        seen = tuple(tuple(m for m in range(len(words)) if m != n) for n in range(len(words)))
        passes.append((CandidatePass(tuple(words), (0.9,) * len(words), seen, (True,) * len(words), -0.1),))
    trace = Trace("edit", (2,), (-0.1,), tuple(passes), (0,) * len(passes))
    return TraceView("edit", trace, said[-1], steps=len(said))


def test_words_that_were_inserted_are_those_that_changed():
    assert [line for line in plain([growing()]) if line[:2].strip().isdigit()] == [
        "1",
        "2  [Das] [ist]",
        "3  Das [Haus] ist [ist] [alt]",
        "4  Das Haus ist alt",
        "5  Das [alte] Haus ist [sehr] alt",
    ]


@pytest.mark.parametrize("position", [None, 0, 4, 5])
def test_passes_of_any_length_are_shown_in_every_view(position):
    picture = render_svg(example.SOURCE, [growing()], position)
    shown = [text.text for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]
    assert shown.count("Haus") == 3
    assert "sehr" in render_html(example.SOURCE, [growing()])
    assert any("sehr" in line for line in plain([growing()], position=position))
    rows = words_by_pass(growing(), None, position)
    assert [len(row) for row in rows] == [0, 2, 5, 4, 6]
    for row, following in itertools.pairwise(rows):
        there = position is not None and position < len(following)
        expected = [there and m != position and m < len(following) for m in range(len(row))]
        assert [word.observed for word in row] == expected


def test_a_position_must_be_in_the_longest_pass():
    with pytest.raises(UserError, match="position must be between 0 and 5 for edit, got 6"):
        plain([growing()], position=6)


# Terminal


def test_plain_terminal_lines():
    lines = plain([example.easy_first()])
    assert "1  Ich wollte letztes letztes?     alten?  alten? Freunde in Berlin besuchen ." in lines
    assert "2  Ich wollte letztes [Wochenende] [meine] alten  Freunde in Berlin besuchen ." in lines
    assert "=> Ich wollte letztes Wochenende meine alten Freunde in Berlin besuchen." in lines
    assert lines[2].startswith("easy-first 3 steps · 18 ms · 11 words")


def test_plain_terminal_shows_what_a_word_observed():
    text = "\n".join(plain([example.easy_first()], position=4))
    first = next(line for line in text.splitlines() if line.startswith("1 "))
    # the least sure word of pass 1 sees all the others
    assert re.findall(r"\{(\S+?)\??\}", first) == [
        "Ich",
        "wollte",
        "letztes",
        "letztes",
        "alten",
        "Freunde",
        "in",
        "Berlin",
        "besuchen",
        ".",
    ]
    assert ">[meine]<" in text


def test_traces_stand_side_by_side_where_there_is_room():
    assert any(line.count("letztes?") == 2 for line in plain(example.both(), width=170))
    assert not any(line.count("letztes?") == 2 for line in plain(example.both(), width=100))


@pytest.mark.parametrize("width", [20, 40, 80])
def test_narrow_terminals_lose_no_word(width):
    lines = plain(example.both(), width=width, position=3)
    assert max(map(len, lines)) <= width
    assert " ".join(lines).count("Berlin") == 1 + 4 + 1 + 3 + 1


def test_the_other_candidate_can_be_shown():
    assert any("[letztens?]" in line for line in plain(example.both(), candidate=1))


def test_colour_only_where_the_console_has_it():
    def printed(console: Console) -> str:
        print_traces(console, example.SOURCE, example.both(), position=3)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    colourful = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="truecolor")
    dull = Console(file=io.StringIO(), width=100, color_system=None)
    assert "\x1b[" in (text := printed(colourful))
    assert "[meine" not in re.sub(r"\x1b\[[\d;]*m", "", text)
    assert "\x1b" not in (text := printed(dull))
    assert ">[Wochenende]<" in text


def test_no_text_steers_the_terminal():
    lines = render_terminal("a\x1b[2Jb", [one_pass(*HOSTILE)], colour=True)
    assert not any("\x1b" in line.plain or "\x00" in line.plain for line in lines)


# Page


class Page(HTMLParser):
    """The elements of a page and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script" and data.strip():
            self.scripts.append(data)


def test_page_holds_the_whole_trace():
    page = Page(render_html(example.SOURCE, example.both()))
    data = json.loads(page.scripts[0])
    assert data == json.loads(json.dumps(to_data(example.SOURCE, example.both())))
    assert [trace["strategy"] for trace in data["traces"]] == ["mask-predict", "easy-first"]
    assert data["traces"][1]["passes"][1][0]["words"][3] == "Wochenende"
    assert data["traces"][1]["winners"] == [1, 0, 0]


def test_page_needs_nothing_from_outside():
    text = render_html(example.SOURCE, example.both())
    assert not re.search(r"https?://|@import|url\(|src=|<link", text)
    page = Page(text)
    policy = re.search(r'content="(default-src[^"]*)"', text)
    assert policy is not None
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy[1]


def test_no_text_becomes_markup():
    text = render_html(" ".join(HOSTILE), [one_pass(*HOSTILE, strategy=HOSTILE[0])])
    page = Page(text)
    assert page.tags.count("script") == 2
    assert "img" not in page.tags
    assert json.loads(page.scripts[0])["traces"][0]["passes"][0][0]["words"] == [
        visible(word) for word in HOSTILE
    ]
    assert "innerHTML" not in text


# Picture


def rectangles(svg: str, *classes: str) -> list[tuple[float, float, float, float]]:
    names = ("x", "y", "width", "height")
    found = ElementTree.fromstring(svg).iter(f"{SVG}rect")
    boxes = [
        tuple(float(box.attrib[name]) for name in names) for box in found if box.attrib["class"] in classes
    ]
    return boxes  # type: ignore[return-value]


@pytest.mark.parametrize("position", [None, 0, 3, 10])
@pytest.mark.parametrize("repeat", [1, 4])
def test_boxes_never_overlap_and_stay_on_the_paper(position, repeat):
    view = example.easy_first()
    longer = tuple(tuple(_repeated(candidate, repeat) for candidate in row) for row in view.trace.passes)
    view = replace(view, trace=replace(view.trace, passes=longer))
    svg = render_svg(example.SOURCE * repeat, [example.mask_predict(), view], position)
    boxes = rectangles(svg, "sure", "kept", "observed")
    assert len(boxes) == 11 * 4 + 11 * 3 * repeat + (4 if position is None else 6)
    for index, (x, y, width, height) in enumerate(boxes):
        for other_x, other_y, other_width, other_height in boxes[:index]:
            apart = x >= other_x + other_width or other_x >= x + width
            assert apart or y >= other_y + other_height or other_y >= y + height
    [(_, _, paper_width, paper_height)] = rectangles(svg, "paper")
    assert paper_width <= MAX_WIDTH
    assert all(
        x >= MARGIN and x + w <= paper_width - MARGIN + 2 and y + h < paper_height for x, y, w, h in boxes
    )


def _repeated(candidate: CandidatePass[str], times: int) -> CandidatePass[str]:
    return CandidatePass(
        candidate.tokens * times,
        candidate.probabilities * times,
        candidate.observed * times,
        candidate.predicted * times,
        candidate.score,
    )


def test_picture_marks_changed_and_observed_words():
    svg = render_svg(example.SOURCE, [example.easy_first()], 3)
    legend = 1
    assert len(rectangles(svg, "changed")) == 2 + legend
    assert len(rectangles(svg, "chosen")) == 3 + legend
    assert len(rectangles(svg, "observed")) == 9 + 9 + legend
    curves = [path.attrib["d"].count("M") for path in ElementTree.fromstring(svg).iter(f"{SVG}path")]
    assert curves == [9, 9]


def test_surer_words_are_fuller():
    svg = ElementTree.fromstring(render_svg("x", [example.easy_first()]))
    opacity = [
        float(box.attrib["fill-opacity"]) for box in svg.iter(f"{SVG}rect") if box.attrib["class"] == "sure"
    ]
    first = example.easy_first().trace.passes[0][0].probabilities
    assert sorted(range(11), key=opacity[:11].__getitem__) == sorted(range(11), key=first.__getitem__)


def test_picture_of_hostile_text_is_well_formed():
    svg = ElementTree.fromstring(render_svg(" ".join(HOSTILE), [one_pass(*HOSTILE, "\ufffe", "\ud800")]))
    texts = [text.text for text in svg.iter(f"{SVG}text")]
    assert HOSTILE[0] in texts
    assert not list(svg.iter(f"{SVG}script"))


def test_right_to_left_words_start_at_the_right():
    arabic = one_pass("أردت", "زيارة", "برلين")
    assert reads_right_to_left(arabic.text)
    assert not reads_right_to_left("12 Ich")
    left = [x for x, *_ in rectangles(render_svg("x", [arabic]), "sure")][:3]
    assert left == sorted(left, reverse=True)
    assert to_data("x", [arabic])["traces"][0]["direction"] == "rtl"


def test_a_trace_without_passes_is_shown_as_such():
    nothing = TraceView("easy-first", Trace("easy-first", (), (), (), ()), "", steps=0)
    assert "easy-first 0 steps" in plain([nothing])
    ElementTree.fromstring(render_svg("", [nothing]))
    assert json.loads(Page(render_html("", [nothing])).scripts[0])["traces"][0]["passes"] == []


def test_characters_in_parts_are_put_together():
    tokens = ["Ġ", "Ù", "ħ", "Ø", "±", "."]  # " مر.", a byte a token
    pieces = dict(zip(tokens, [" ", "\ufffd", "\ufffd", "\ufffd", "\ufffd", "."], strict=True))
    one = one_pass(*tokens)
    shown = to_data("x", [replace(one, pieces=pieces)])["traces"][0]["passes"][0][0]
    assert shown["words"] == ["", "", "م", "", "ر", "."]
    assert shown["spaces"] == [True, False, False, False, False, False]
    lonely = to_data("x", [replace(one_pass("Ù", "a"), pieces={"Ù": "\ufffd", "a": "a"})])
    assert lonely["traces"][0]["passes"][0][0]["words"] == ["\ufffd", "a"]


def test_pinned_words_are_marked_everywhere():
    view = one_pass("Ich", "wollte", "besuchen")
    pinned = replace(view.trace.passes[0][0], pinned=(False, True, False))
    views = [replace(view, trace=replace(view.trace, passes=((pinned,),)))]
    assert any("=wollte=" in line for line in plain(views))
    assert any("=pinned=" in line for line in plain(views))
    assert len(rectangles(render_svg("x", views), "pinned")) == 1 + 1  # and in the legend
    assert to_data("x", views)["traces"][0]["passes"][0][0]["pinned"] == (False, True, False)
    assert not any("pinned" in line for line in plain([view]))


# Decoders that insert and delete words


def test_inserted_words_have_changed_and_moved_words_have_not():
    first, second, *_ = (candidates[0].tokens for candidates in example.editing().trace.passes)
    changed = [word for word, new in zip(second, changed_words(first, second), strict=True) if new]
    assert changed == ["alte", "alte", "Freunde", "besuchen"]  # the full stop has only moved
    assert not any(changed_words(second, second[:2] + second[3:]))


def test_the_terminal_shows_passes_of_any_length():
    lines = plain([example.editing()], position=1)
    assert "1  {Ich} >{wollte}< {.}" in lines
    assert "2  Ich >wollte< [alte] [alte] [Freunde] [besuchen] ." in lines
    assert "3" in lines
    assert "4  [Ich] >[wollte]< [alte] [Freunde] [besuchen] [.]" in lines
    assert "4  [Ich] [wollte] [alte] [Freunde] [besuchen] >[.]<" in plain([example.editing()], position=5)
    with pytest.raises(UserError, match="position must be between 0 and 6"):
        plain([example.editing()], position=7)


def test_pictures_show_passes_of_any_length():
    root = ElementTree.fromstring(render_svg(example.SOURCE, [example.editing()], 1))
    texts = [node.text for node in root.iter(f"{SVG}text")]
    assert texts.count("Freunde") == 2
    assert texts.count("wollte") == 3
    links = [node for node in root.iter(f"{SVG}path") if node.get("class") == "link"]
    assert [len(re.findall("M", node.get("d") or "")) for node in links] == [3, 0]  # what passes 2 and 4 saw


def test_pages_show_passes_of_any_length():
    passes = to_data(example.SOURCE, [example.editing()])["traces"][0]["passes"]
    assert [len(candidate["words"]) for (candidate,) in passes] == [3, 7, 0, 6]
    assert passes[1][0]["changed"] == [False, False, True, True, True, True, False]
    assert example.SOURCE in render_html(example.SOURCE, [example.editing()])


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_the_page_s_script_describes_passes_of_any_length():
    """The module that asks about passes needs no browser."""
    modules = "\n".join(asset(f"{name}.js") for name in ("dom", "passes"))
    script = re.sub(r"^export ", "", re.sub(r"^import .*\n", "", modules, flags=re.M), flags=re.M)
    passes = [row[0] for row in to_data(example.SOURCE, [example.editing()])["traces"][0]["passes"]]
    script += f"\nconst passes = {json.dumps(passes)};"
    script += (
        "\nconst all = (pass, t) => wordsOf(pass).map((word) => describe(passes, t, word.start, word.end));"
    )
    script += "\nconsole.log(JSON.stringify(passes.map(all)));"
    done = subprocess.run(
        ["node", "--input-type=module"], input=script, capture_output=True, text=True, check=True
    )
    first, second, third, fourth = json.loads(done.stdout)
    assert first[0] == "90 % · saw no other word, only the source and the length"
    assert second[2] == "90 % · saw 3 of 3 others: Ich wollte ."
    assert third == []
    assert len(fourth) == 6
