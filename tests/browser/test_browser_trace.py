"""`disco trace --html`: one file, the same view, nothing from outside."""

from __future__ import annotations

import trace_example as example
from disco_mt.views import render_html


def test_the_file_opens_and_steps(chromium, tmp_path):
    file = tmp_path / "trace.html"
    file.write_text(render_html(example.SOURCE, example.both()), encoding="utf-8")
    wrong = []
    page = chromium.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: message.type == "error" and wrong.append(message.text))
    page.goto(file.as_uri())
    assert page.inner_text("h1") == example.SOURCE
    assert page.locator(".panel h3").all_inner_texts() == ["mask-predict", "easy-first"]
    page.keyboard.press("Home")
    assert page.inner_text(".controls output") == "Pass 1 of 4"
    page.keyboard.press("ArrowRight")
    second = page.locator(".panel").nth(1).locator(".pass").nth(1)
    assert second.locator(".changed").all_inner_texts() == ["Wochenende", "meine"]
    second.locator(".word").nth(4).hover()
    assert page.locator(".panel").nth(1).locator(".pass").nth(0).locator(".observed").count() == 10
    assert "saw 10 of 10 others" in page.inner_text(".detail")
    assert wrong == []
    page.close()


def test_passes_of_any_length(chromium, tmp_path):
    file = tmp_path / "trace.html"
    file.write_text(render_html(example.SOURCE, [example.editing()]), encoding="utf-8")
    wrong = []
    page = chromium.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(file.as_uri())
    counts = [page.locator(".pass").nth(t).locator(".word").count() for t in range(4)]
    assert counts == [3, 7, 0, 6]
    assert page.inner_text(".candidate b") == "6"
    page.locator(".pass").nth(1).locator(".word").nth(4).hover()
    assert page.locator(".pass").nth(0).locator(".observed").count() > 0
    assert wrong == []
    page.close()
