"""Pins as text: notation, tokens, and whether a translation has kept them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import NUM_SPECIAL, SPECIAL_TOKENS
from disco_mt.pins.parse import Pin, contains, may_follow, may_precede
from disco_mt.text.tokenizer import Tokenizer

LINES = [
    "das alte Haus, das Kind sieht.",
    "Straße und Häuser – 1989!",
    "我们 房子 很 大。",
    "我们房子很大。",
] * 4


@pytest.fixture(scope="module")
def german() -> Tokenizer:
    return Tokenizer.train(LINES, 320, "de")


@pytest.fixture(scope="module")
def chinese(german: Tokenizer) -> Tokenizer:
    return Tokenizer(german.backend, "zh", "raw")


@pytest.mark.parametrize(
    ("typed", "pin"),
    [
        ("Haus", Pin("Haus")),
        ("das Haus@2", Pin("das Haus", 2)),
        ("Haus@1:2", Pin("Haus", 2, 1)),
        ("Haus@1:", Pin("Haus", None, 1)),
        ("a@2@", Pin("a@2")),
        ("me@example.org", Pin("me@example.org")),
        ("@", Pin("@")),
        ("@3", Pin("@3")),
        ("x@99999999999999999999", Pin("x@99999999999999999999")),
    ],
)
def test_as_it_is_typed(typed: str, pin: Pin) -> None:
    assert Pin.parse(typed) == pin


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Pin(""), "must have a text"),
        (lambda: Pin(" \n"), "must have a text"),
        (lambda: Pin("Haus", -1), "the place of pin 'Haus' must be at least 0, got -1"),
        (lambda: Pin.parse("Haus@-1"), "at least 0"),
        (lambda: Pin("Haus", sentence=-1), "the sentence of pin"),
    ],
)
def test_mistakes(make: object, why: str) -> None:
    with pytest.raises(UserError, match=why):
        make()


def written(pin: Pin, target: Tokenizer, before: str = "das", after: str = "") -> str:
    ids = pin.ids(target)
    assert not isinstance(ids, str)
    left = target.encode(before) if pin.at != 0 else []
    return target.decode([*left, *ids, *target.encode(after)])


@pytest.mark.parametrize(
    ("pin", "text"),
    [
        (Pin("Haus"), "das Haus"),
        (Pin("  alte \n Haus "), "das alte Haus"),
        (Pin("Haus", 0), "Haus"),
        (Pin("."), "das."),
        (Pin(", das"), "das, das"),
        (Pin(".", 0), "."),
        (Pin("– ja"), "das – ja"),
        (Pin("-Tür"), "das -Tür"),  # a word of its own: what stands before it is not asked for more
        (Pin("Zürich"), "das Zürich"),
        (Pin("</s>"), "das </s>"),
        (Pin("1989"), "das 1989"),
    ],
)
def test_a_pin_is_written_as_it_is_in_the_middle_of_a_sentence(
    german: Tokenizer, pin: Pin, text: str
) -> None:
    assert written(pin, german) == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("房子", "我们房子"), ("-房子", "我们-房子"), ("。", "我们。"), ("5", "我们5"), ("a", "我们a")],
)
def test_without_spaces_a_pin_brings_none(chinese: Tokenizer, text: str, wanted: str) -> None:
    assert written(Pin(text, 1), chinese, "我们") == wanted
    assert written(Pin(text, 0), chinese) == text
    assert all(may_follow(chinese))


@given(st.text(min_size=1, max_size=12).filter(lambda text: text.strip(" \t\r\n")))
@settings(max_examples=200, deadline=None)
def test_any_text_can_be_pinned(german: Tokenizer, text: str) -> None:
    pin = Pin(text)
    ids = pin.ids(german)
    assert not isinstance(ids, str)
    assert ids
    assert min(ids) >= NUM_SPECIAL
    assert contains(german.decode([*german.encode("das"), *ids]), text)


@given(st.data(), st.text(st.characters(categories=("L", "M", "N", "P")), min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_what_may_follow_leaves_a_word_as_it_is(german: Tokenizer, data: st.DataObject, word: str) -> None:
    pin, allowed = Pin(word), may_follow(german)
    ids = pin.ids(german)
    assert not isinstance(ids, str)
    follower = data.draw(st.integers(NUM_SPECIAL, german.vocabulary_size - 1))
    rest = data.draw(st.lists(st.integers(NUM_SPECIAL, german.vocabulary_size - 1), max_size=3))
    if allowed[follower] or not pin.ends_a_word:
        before = data.draw(st.lists(st.integers(NUM_SPECIAL, german.vocabulary_size - 1), max_size=3))
        assert contains(german.decode([*before, *ids, follower, *rest]), word)


def test_what_may_follow(german: Tokenizer) -> None:
    allowed = dict(zip(german.tokens(range(german.vocabulary_size)), may_follow(german), strict=True))
    assert all(allowed[token] for token in ("Ġ", "Ġdas", ".", ",", "!", ")", "Ċ"))
    assert not any(allowed[token] for token in ("a", "7", "-", "'", "_", "Ã", "Ł", *SPECIAL_TOKENS))
    assert all(may_precede(german))


def test_pretokenized_text_is_pinned_token_by_token() -> None:
    target = Tokenizer.from_vocabulary([*SPECIAL_TOKENS, "das", "Hau@@", "s", "."], "de")
    assert Pin("Hau@@ s").ids(target) == [6, 7]
    assert "no token for a part of the pin 'Tür'" in str(Pin("Tür").ids(target))
    assert "no token" in str(Pin("das </s>").ids(target))
    assert may_precede(target)[5:] == [True, False, True, True]
    assert all(may_follow(target))


def test_what_the_tokenizer_cannot_write_is_refused() -> None:
    moses = Tokenizer.train(LINES, 320, "de", "moses")
    assert Pin("das Haus.").ids(moses) == moses.encode("das Haus.")
    assert "would become 'a b'" in str(Pin("a\u2003b").ids(moses))


@pytest.mark.parametrize(
    ("text", "phrase", "kept"),
    [
        ("das Haus.", "Haus", True),
        ("das Haus", "das  Haus", True),
        ("„Haus“", "Haus", True),
        ("Haustür", "Haus", False),
        ("Bauhaus", "haus", False),
        ("Haus-Tür Haus", "Haus", True),
        ("Haus-Tür", "Haus", False),
        ("Haus’", "Haus", False),
        ("1989", "198", False),
        ("das haus", "Haus", False),
        ("aaa aa", "aa", True),
        ("Ja.", ".", True),
        ("", "Haus", False),
    ],
)
def test_kept(text: str, phrase: str, kept: bool) -> None:
    assert contains(text, phrase) == kept


def test_kept_without_spaces() -> None:
    assert not contains("我们房子", "房子")
    assert contains("我们房子", "房子", "zh")
