"""The page of `disco serve` as people use it: by mouse, by keyboard alone, on a small screen, in the dark."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest

TEXT = "The old house sees the small child today."
MORE = "The child finds the house. The old child sees the small house often."


def translated(page, text: str = TEXT) -> None:
    """Type, and wait for the translation of exactly this."""
    with page.expect_response(lambda answer: answer.url.endswith("/v1/translate")) as answer:
        page.fill("#source", text)
    assert answer.value.ok
    page.wait_for_selector("#translation .spoken")
    settled(page)


def settled(page) -> None:
    """Nothing is asked or awaited any longer, and the passes are there."""
    page.wait_for_selector("body:not(.waiting) #sentences .pass")


def words(page) -> list[str]:
    return page.locator("#translation .spoken").all_inner_texts()


def pin(page, index: int, text: str) -> None:
    """Replace a word by another and wait until that is done."""
    page.locator("#translation .spoken").nth(index).click()
    page.locator(".popover input[type=text]").fill(text)
    page.locator(".popover .pin").click()
    page.wait_for_selector(f"#pins li:has-text('{text}')")
    settled(page)


def test_what_is_typed_is_translated(open_page):
    page = open_page()
    page.locator("#examples").wait_for()
    assert page.locator("#story").is_hidden()
    translated(page)
    assert words(page)
    assert re.fullmatch(r"\d+ steps? · \d+ ms", page.inner_text("#facts"))
    assert page.inner_text("#live").startswith("Translation: ")
    sure = page.locator("#translation .spoken").evaluate_all(
        "nodes => nodes.map(node => Number(node.style.getPropertyValue('--p')))"
    )
    assert all(0 < p <= 1 for p in sure)
    page.click("#clear")
    page.wait_for_selector("#empty", state="visible")
    assert words(page) == []


def test_an_example_is_one_click_away(open_page):
    page = open_page()
    page.locator("#examples button").first.click()
    page.wait_for_selector("#translation .spoken")
    assert page.input_value("#source") == page.locator("#examples button").first.text_content()


def test_stepping_through_the_passes(open_page):
    page = open_page()
    translated(page)
    rows = page.locator(".panel .pass")
    count = rows.count()
    assert count >= 2
    last = words(page)
    assert page.inner_text(".controls output") == f"Pass {count} of {count}"
    page.locator(".controls input").focus()
    page.keyboard.press("Home")
    assert page.inner_text(".controls output") == f"Pass 1 of {count}"
    assert rows.nth(0).get_attribute("aria-current") == "step"
    assert page.locator(".pass.later").count() == count - 1
    assert letters(words(page)) == letters(rows.nth(0).locator(".word").all_inner_texts())
    page.click("[aria-label='next pass']")
    marked = rows.nth(1).locator(".word.changed").count()
    assert marked == changed(rows.nth(0), rows.nth(1))
    page.click("text=▶ Play")
    page.wait_for_function(
        f"document.querySelector('.controls output').textContent === 'Pass {count} of {count}'"
    )
    assert words(page) == last


def letters(texts: list[str]) -> str:
    """Without the marks for tokens that are a space or a part of a character."""
    return "".join(texts).replace("␣", "").replace("·", "")


def changed(before, after) -> int:
    pairs = zip(
        before.locator(".word").all_inner_texts(), after.locator(".word").all_inner_texts(), strict=True
    )
    return sum(old != new for old, new in pairs)


def test_a_word_shows_what_it_observed(open_page):
    page = open_page()
    with page.expect_response(lambda answer: answer.url.endswith("/v1/translate")) as answer:
        page.fill("#source", TEXT)
    settled(page)
    # The browser keeps no copy of a stream that the page has read: ask the same once more.
    again = page.request.post(answer.value.url, data=answer.value.request.post_data_json)
    trace = sentences(again.text())[0]["trace"]
    rows = page.locator(".panel .pass")
    candidate = trace["winners"][-1]
    observed = trace["passes"][1][candidate]["observed"]
    n = max(range(len(observed)), key=lambda place: len(observed[place]))
    rows.nth(1).locator(".word").nth(n).hover()
    lit = (
        rows.nth(0)
        .locator(".word")
        .evaluate_all("nodes => nodes.flatMap((node, n) => node.classList.contains('observed') ? [n] : [])")
    )
    assert lit == sorted(observed[n])
    assert f"saw {len(lit)} of {len(observed) - 1} others" in page.inner_text(".detail")
    page.mouse.move(0, 0)
    assert page.locator(".observed:not(.legend *)").count() == 0


def sentences(events: str) -> list[dict]:
    """Of the last of the server-sent events: the result."""
    result = events.strip().split("\n\n")[-1]
    return json.loads(result.removeprefix("event: result\ndata: "))["translations"][0]["sentences"]


def test_a_pinned_word_is_kept_and_the_rest_adapts(open_page):
    page = open_page()
    translated(page)
    before = words(page)
    pin(page, 1, "Haus")
    after = page.locator("#translation .spoken.pinned").all_inner_texts()
    assert after == ["Haus"]
    assert all(n > 0 for n in [row.locator(".word.pinned").count() for row in page.locator(".pass").all()])
    page.locator("#translation .spoken.pinned").click()
    page.click(".popover >> text=Unpin")
    page.wait_for_selector("#pins", state="hidden")
    settled(page)
    assert words(page) == before


def test_a_pin_survives_an_edit_and_another_strategy(open_page):
    page = open_page()
    translated(page)
    pin(page, 1, "Kind")
    page.check("input[value=mask-predict]")
    page.wait_for_selector(".panel h3:has-text('mask-predict')")
    assert page.locator("#translation .spoken.pinned").all_inner_texts() == ["Kind"]
    translated(page, TEXT.replace("today", "often"))
    page.wait_for_selector("#pins i")  # its sentence is another one: it may stand anywhere
    assert page.locator("#translation .spoken.pinned").all_inner_texts() == ["Kind"]


def test_a_pin_that_cannot_be_is_refused_and_nothing_else_changes(open_page):
    page = open_page()
    translated(page)
    before = words(page)
    page.locator("#translation .spoken").first.click()
    page.locator(".popover input[type=text]").fill("🎉" * 20)  # four tokens each
    page.locator(".popover input[type=text]").press("Enter")
    notice = page.locator("#notice")
    notice.wait_for()
    assert "pin" in notice.inner_text()
    assert words(page) == before
    assert page.locator("#pins").is_hidden()
    open_page.wrong.clear()  # the browser logs every 422


def test_strategies_side_by_side(open_page):
    page = open_page()
    translated(page)
    page.check("input[value=both]")
    page.wait_for_selector(".compared .panel >> nth=1")
    assert page.locator(".panel h3").all_inner_texts() == ["easy-first", "mask-predict"]
    left, right = (panel.bounding_box() for panel in page.locator(".panel").all())
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    assert page.locator(".panel .stage").nth(1).is_visible()
    for panel in page.locator(".panel").all():
        assert re.fullmatch(r"\d+ steps? · \d+ ms", panel.locator(".facts").inner_text())


def test_length_candidates_have_scores_and_can_be_looked_at(open_page):
    page = open_page("#lengthBeam=3")
    translated(page)
    chips = page.locator(".candidate")
    assert chips.count() == 3
    assert all(re.search(r"−?\d+\.\d\d$", text) for text in chips.all_inner_texts())
    assert page.locator(".candidate.leads").count() == 1
    other = page.locator(".candidate[aria-checked=false]").first
    length = int(other.locator("b").inner_text())
    other.click()
    assert page.locator(".pass").first.locator(".word").count() == length


def test_a_model_that_has_no_passes_is_read_all_the_same(open_page):
    page = open_page()
    translated(page)
    page.select_option("#model", label="English → German · autoregressive")
    page.wait_for_selector("#story", state="hidden")
    assert words(page)
    assert page.locator("input[name=strategy]:disabled").count() == 3
    page.select_option("#model", label="English → German · disco")
    page.wait_for_selector("#story", state="visible")


def test_a_paragraph_is_a_card_a_sentence(open_page):
    page = open_page()
    translated(page, MORE)
    assert page.locator(".sentence summary").count() == 2
    assert page.locator("#translation .stage").count() == 2
    second = page.locator("#translation .stage").nth(1).locator(".spoken").first
    second.click()
    page.locator(".popover input[type=text]").fill("oft")
    page.keyboard.press("Enter")
    page.wait_for_selector("#pins li")
    settled(page)
    assert page.locator("#translation .stage").nth(1).locator(".pinned").all_inner_texts() == ["oft"]
    assert page.locator("#translation .stage").nth(0).locator(".pinned").count() == 0


def test_a_shared_link_brings_everything_back(open_page, served):
    page = open_page()
    translated(page)
    page.check("input[value=both]")
    page.wait_for_selector(".compared")
    pin(page, 1, "Haus")
    page.wait_for_function("location.hash.includes('pin=')")
    again = open_page("#" + urlsplit(page.url).fragment)
    again.wait_for_selector("#pins li:has-text('Haus')")
    settled(again)
    assert again.input_value("#source") == TEXT
    assert words(again) == words(page)
    assert again.is_checked("input[value=both]")
    assert parse_qs(urlsplit(page.url).fragment)["text"] == [TEXT]
    assert "house" not in served.log.read_text()  # behind the #: not in the server's log


def test_keyboard_alone(open_page):
    page = open_page()
    page.wait_for_function("document.activeElement.id === 'source'")
    page.keyboard.type(TEXT)
    page.wait_for_selector("#translation .spoken")
    settled(page)
    tab_to(page, "#translation .spoken")
    page.keyboard.press("ArrowRight")
    assert focused(page) == page.locator("#translation .spoken").nth(1).get_attribute("aria-label")
    assert page.locator("#translation .spoken[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")  # closes, and the word has the focus again
    assert page.locator(".popover").is_hidden()
    assert focused(page) == page.locator("#translation .spoken").nth(1).get_attribute("aria-label")
    page.keyboard.press("Enter")
    page.keyboard.type("Haus")
    page.keyboard.press("Enter")
    page.wait_for_selector("#translation .spoken.pinned:focus")
    assert focused(page).startswith("Haus, pinned")
    tab_to(page, ".controls input")
    page.keyboard.press("Home")
    assert page.inner_text(".controls output").startswith("Pass 1 of")
    tab_to(page, ".pass .word")
    page.keyboard.press("ArrowDown")
    assert (
        page.locator(".pass")
        .nth(1)
        .locator(".word")
        .first.evaluate("node => node === document.activeElement")
    )


def tab_to(page, selector: str) -> None:
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    pytest.fail(f"the Tab key never came to {selector}")


def focused(page) -> str:
    return page.evaluate("document.activeElement.getAttribute('aria-label')")


def test_everything_has_a_name(open_page):
    page = open_page()
    translated(page, MORE)
    nameless = page.evaluate(
        """[...document.querySelectorAll('button, input, select, textarea, summary, [role=button]')]
          .filter(node => !(node.ariaLabel || node.textContent.trim() || node.labels?.length))
          .map(node => node.outerHTML)"""
    )
    assert nameless == []
    assert page.evaluate(
        "new Set([...document.querySelectorAll('[id]')].map(node => node.id)).size"
    ) == page.evaluate("document.querySelectorAll('[id]').length")


@pytest.mark.parametrize("width", [320, 390])
def test_narrow_screen(open_page, width):
    page = open_page(width=width, height=700, has_touch=True)
    translated(page, MORE)
    page.check("input[value=both]")
    page.wait_for_selector(".compared")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#translation .spoken").last.tap()
    box = page.locator(".popover").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width


def test_dark_and_light(open_page):
    def background(page) -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in re.findall(r"\d+", colour)[:3])

    dark, light = open_page(color_scheme="dark"), open_page(color_scheme="light")
    assert background(dark) < 150
    assert background(light) > 600
    dark.click("#theme")
    assert background(dark) > 600
    dark.reload()
    assert background(dark) > 600  # it is remembered


def test_contrast_of_words_is_enough(open_page):
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme)
        translated(page)
        pin(page, 0, "Haus")
        page.mouse.move(0, 0)
        page.evaluate("document.activeElement.blur()")
        for selector in (
            ".spoken:not(.pinned)",
            ".spoken.pinned",
            ".facts",
            ".word",
            ".controls .play",
            "footer p",
        ):
            assert contrast(page, selector) >= 4.5, (scheme, selector)


def contrast(page, selector: str) -> float:
    """WCAG contrast of text against the colours behind it, put over one another."""
    return page.locator(selector).first.evaluate(
        """node => {
          const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
          const layers = [];
          for (let at = node; at; at = at.parentElement) layers.unshift(getComputedStyle(at).backgroundColor);
          canvas.fillStyle = '#fff'; canvas.fillRect(0, 0, 1, 1);
          const paint = (colour) => { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
          const light = (rgb) => rgb.map(v => v / 255)
            .map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
          const back = light(layers.map(paint).at(-1)), front = light(paint(getComputedStyle(node).color));
          return (Math.max(back, front) + .05) / (Math.min(back, front) + .05);
        }"""
    )


def test_right_to_left(open_page):
    page = open_page()
    translated(page, "البيت القديم")
    assert page.locator("#source").evaluate("node => getComputedStyle(node).direction") == "rtl"
    pin(page, 0, "مرحبا")
    assert page.locator("#translation .spoken.pinned").all_inner_texts() == ["مرحبا"]  # of many tokens
    stage = page.locator("#translation .stage").first
    assert stage.evaluate("node => getComputedStyle(node).direction") == "rtl"
    first, second = (page.locator(".pass").first.locator(".word").nth(n).bounding_box() for n in (0, 1))
    assert first["x"] > second["x"]
    page.locator(".pass .word").first.focus()
    page.keyboard.press("ArrowLeft")  # onwards, as the text reads
    assert (
        page.locator(".pass")
        .first.locator(".word")
        .nth(1)
        .evaluate("node => node === document.activeElement")
    )


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (429, {"Retry-After": "1"}, "Many people are translating"),
        (503, {"Retry-After": "1"}, "starting or restarting"),
        (413, {}, "too long"),
        (500, {}, "went wrong"),
    ],
)
def test_trouble_is_said_kindly_and_passes(open_page, status, headers, said):
    page = open_page()
    page.route(
        "**/v1/translate",
        lambda route: route.fulfill(status=status, headers=headers, body="{}"),
        times=2 if status == 413 else 1,  # without the passes, more text is taken
    )
    page.fill("#source", TEXT)
    page.wait_for_selector(f"#notice:has-text('{said}')")
    if not headers:
        page.locator("#source").press("End")
        page.keyboard.type(" ")
    page.wait_for_selector("#translation .spoken")  # where it helps, the page tries again by itself
    assert page.locator("#notice").is_hidden()
    open_page.wrong.clear()


def test_without_a_network_the_text_stays(open_page):
    page = open_page()
    page.wait_for_selector("#examples button")
    page.context.set_offline(True)
    page.fill("#source", TEXT)
    page.wait_for_selector("#notice:has-text('cannot be reached')")
    assert page.input_value("#source") == TEXT
    page.context.set_offline(False)
    page.wait_for_selector("#translation .spoken")
    open_page.wrong.clear()


def test_no_text_becomes_markup(open_page):
    page = open_page("#text=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E%20house&pin=0,0,%3Cb%3E")
    page.wait_for_selector("#translation .spoken, #notice:not([hidden])")
    assert page.locator("#translation img, #translation b, #pins b, #sentences img").count() == 0
    open_page.wrong.clear()
