"""The files of the page: nothing inline, nothing from outside, every module there, and all of it small."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

import disco_mt
from disco_mt.views.html import MODULES, bundle

PACKAGE = Path(disco_mt.__file__).parent
PAGE, VIEW = PACKAGE / "serve" / "page", PACKAGE / "views" / "assets"
FILES = sorted([*PAGE.glob("*.*"), *VIEW.glob("*.*")])
SCRIPTS = [file for file in FILES if file.suffix == ".js"]
COMPRESSED = 30_000  # bytes, each file by itself


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_comes_from_outside(file):
    text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|(src|href)=.//|@import|url\(", text)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text
    )


def test_nothing_is_inline():
    index = (PAGE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", index)
    assert not re.search(r"<script(?![^>]*\bsrc=)", index)


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_what_is_imported_is_there(file):
    for names, path in re.findall(
        r'^import \{ (.*) \} from "(.*)";$', file.read_text(encoding="utf-8"), re.M
    ):
        folder = VIEW if path.startswith("../view/") else file.parent
        exported = (folder / Path(path).name).read_text(encoding="utf-8")
        for name in names.split(", "):
            assert re.search(rf"^export (async )?(function|class|const|let) {name}\b", exported, re.M), (
                path,
                name,
            )


def test_the_one_file_page_has_every_module_and_every_name_once():
    assert {f"{name}.js" for name in MODULES} == {file.name for file in VIEW.glob("*.js")}
    script = bundle()
    assert not re.search(r"^(import|export) ", script, re.M)
    names = re.findall(r"^(?:function|class|const|let) (\w+)", script, re.M)
    assert len(names) == len(set(names))


def test_it_is_small():
    assert sum(len(gzip.compress(file.read_bytes())) for file in FILES) < COMPRESSED
