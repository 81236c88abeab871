"""Paragraphs are split at sentence ends and nothing is lost."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco_mt.text.sentences import split_sentences


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("en", "Dr. Smith came. He left.", ["Dr. Smith came.", "He left."]),
        ("en", "It costs 3.50 dollars.  Really? Yes!", ["It costs 3.50 dollars.", "Really?", "Yes!"]),
        ("en", "No end", ["No end"]),
        ("de", "Das ist z.B. gut. Ich gehe.", ["Das ist z.B. gut.", "Ich gehe."]),
        ("de", "Am 3. Mai kam Dr. Weiß. Er blieb.", ["Am 3. Mai kam Dr. Weiß.", "Er blieb."]),
        ("fr", "Où est-il ? Il part.", ["Où est-il ?", "Il part."]),
        ("zh", "我来了。他走了！好吗？", ["我来了。", "他走了！", "好吗？"]),
        ("xx", "An unknown language. Still two.", ["An unknown language.", "Still two."]),
        ("en", "A lone \ud800. Two.", ["A lone \ufffd.", "Two."]),
        ("en", "", []),
        ("en", " \n\t ", []),
    ],
)
def test_split_sentences(language: str, text: str, sentences: list[str]) -> None:
    assert split_sentences(text, language) == sentences


@settings(deadline=None)
@given(st.text(), st.sampled_from(["en", "de", "ro", "zh", "xx"]))
def test_nothing_but_white_space_is_lost(text: str, language: str) -> None:
    def visible(part: str) -> str:
        return "".join(part.split())

    assert visible("".join(split_sentences(text, language))) == visible(text)


def test_the_splitter_is_imported_only_when_used() -> None:
    code = "import sys, disco_mt.text.sentences; sys.exit('sentencex' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
