"""Characters that a vocabulary lacks are set aside and inserted again: all of them, in order."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco_mt.text.sentencepiece import SentencePieceModel
from disco_mt.text.tokenizer import Tokenizer
from disco_mt.text.unknown import Aside, Span, set_aside
from tiny_marian import SOURCE_PIECES, score

PIECES = tuple((piece, score(piece, place)) for place, piece in enumerate(SOURCE_PIECES))
TOKENIZER = Tokenizer(SentencePieceModel(PIECES, b"", True, True, -20.0).backend(), "en", "sentencepiece")


def aside(text: str) -> Aside:
    """Of everything outside ASCII."""
    return set_aside(text, [(n, n + 1) for n, character in enumerate(text) if character >= "\x7f"])


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("the cat", []),
        ("", []),
        ("the 猫 cat", [(4, 5)]),
        ("猫犬 a 犬", [(0, 2), (5, 6)]),
        ("  the\u00a0cat猫", [(9, 10)]),
        ("\ud800the", [(0, 1)]),  # a lone surrogate is U+FFFD to a tokenizer
    ],
)
def test_unknown_spans(text: str, spans: list[Span]) -> None:
    known_space = text.replace("\u00a0", " ")
    assert TOKENIZER.unknown_spans(known_space) == spans


def test_byte_level_bpe_knows_everything() -> None:
    bpe = Tokenizer.train(["the cat"], 261, "en")
    assert bpe.unknown_spans("the 猫 🦄") == []


@pytest.mark.parametrize(
    ("text", "copied", "known"),
    [
        ("plain", (), "plain"),
        ("I love 🦄 you", ("🦄",), "I love  you"),
        ("🦄 🦄🦄 hi", ("🦄 🦄🦄",), " hi"),
        ("fa🦄st", ("🦄",), "fa st"),
        ("Great🦄!", ("🦄",), "Great!"),
        ("family 👨\u200d👩\u200d👧!", ("👨\u200d👩\u200d👧",), "family !"),
        ("press 1\ufe0f\u20e3 now", ("1\ufe0f\u20e3",), "press  now"),
        ("wave 👋🏽.", ("👋🏽",), "wave ."),
        ("the Kṛṣṇa cult", ("Kṛṣṇa",), "the  cult"),  # whole words
        ("say 你好，世界 to", ("你好，世界",), "say  to"),
        ("say 你好, 世界 to", ("你好, 世界",), "say  to"),
        ("🦄, 🦄", ("🦄", "🦄"), ", "),
        ("2🦄2", ("🦄",), "2 2"),
        ("🦄", ("🦄",), ""),
    ],
)
def test_what_is_set_aside(text: str, copied: tuple[str, ...], known: str) -> None:
    found = aside(text)
    assert found.copied == copied
    assert found.known == known


@pytest.mark.parametrize(
    ("text", "translation", "expected"),
    [
        ("Hello!", "Bonjour !", "Bonjour !"),
        ("🦄 Hello!", "Bonjour !", "🦄 Bonjour !"),
        ("🦄Hello!", "Bonjour !", "🦄Bonjour !"),
        ("Hello 🦄", "Bonjour", "Bonjour 🦄"),
        ("Hello🦄", "Bonjour", "Bonjour🦄"),
        ("I love you 🦄.", "Je t'aime.", "Je t'aime 🦄."),  # in front of its full stop
        ("Great 🦄!", "Super !", "Super 🦄!"),
        ("Call 911 🦄 now", "Appelle maintenant le 911", "Appelle maintenant le 911 🦄"),
        ("See Mary 🦄 there", "Vois Mary là-bas", "Vois Mary 🦄 là-bas"),
        ("the 🦄 Tom", "le Tom", "le 🦄 Tom"),
        ("one two 🦄 three four", "un deux trois quatre", "un deux 🦄 trois quatre"),
        ("one 🦄 two three four", "ein zwei", "🦄 ein zwei"),
        ("1, 🦄 2, 3, 🦄 4", "1, 2, 3, 4", "1, 🦄 2, 3, 🦄 4"),
        ("1, 🦄 2, 3, 🦄 4", "rien", "🦄 rien 🦄"),
        ("🦄", "", "🦄"),
        ("🦄 🦄", "", "🦄 🦄"),
        ("the Kṛṣṇa cult", "le culte de", "le culte Kṛṣṇa de"),
    ],
)
def test_where_it_goes(text: str, translation: str, expected: str) -> None:
    assert aside(text).restore(translation) == expected


TEXTS = st.text(st.sampled_from("ab AB1.,!? 🦄猫ṣ\u200d\ufe0f\u0301 "), max_size=25)
TRANSLATIONS = st.text(st.sampled_from("xy AB1.,!? 'é"), max_size=25)


@settings(max_examples=500, deadline=None)
@given(TEXTS, TRANSLATIONS)
def test_nothing_vanishes_and_the_order_stays(text: str, translation: str) -> None:
    found = aside(text)
    restored, rest = found.restore(translation), ""
    at = 0
    for copied in found.copied:
        place = restored.index(copied, at)
        rest += restored[at:place]
        at = place + len(copied)
    rest += restored[at:]
    assert rest.replace(" ", "") == translation.replace(" ", "")


@settings(max_examples=500, deadline=None)
@given(TEXTS)
def test_what_is_known_and_what_is_copied_are_the_text(text: str) -> None:
    found = aside(text)
    assert not set(found.known) - set("ab AB1.,!?")
    parts = [*zip(found.between, (*found.copied, ""), strict=True)]
    assert "".join(known + copied for known, copied in parts) == text
    assert found.known.replace(" ", "") == "".join(found.between).replace(" ", "")


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab AB1.,!?")), TRANSLATIONS)
def test_without_unknown_characters_nothing_changes(text: str, translation: str) -> None:
    assert aside(text) == Aside(text, ())
    assert aside(text).known == text
    assert aside(text).restore(translation) == translation


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_spans_are_in_order_and_apart(text: str) -> None:
    spans = aside(text).spans
    assert all(start < end for start, end in spans)
    assert all(first[1] < second[0] for first, second in pairwise(spans))
