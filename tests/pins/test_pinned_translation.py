"""Pinned words from Python: kept in every output as words, refused with a reason where they cannot be."""

from __future__ import annotations

import random

import pytest

from disco_mt import Pin, Translator
from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Pass
from disco_mt.pins.parse import contains
from disco_mt.pins.pinned import TokenPin
from small_model import WORDS, Small, make_small, sentences

CHOICE = [*WORDS.values(), "Straße", "das alte Haus", "Zürich", "1989", ".", "(heute)", "O'Neill", "日本"]
TEXT = "The old house sees the child."
THREE_PASSES = DecodingOptions(iterations=3)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return make_small(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def disco(small: Small) -> Translator:
    found = Translator.from_pretrained(small.disco)
    found.model.double()  # batches round differently
    return found


def drawn_pins(draw: random.Random, longest: int = 14) -> list[Pin]:
    """One to three, that do not overlap."""
    places = [None, 0, 1, longest]
    return [Pin(draw.choice(CHOICE), draw.choice(places[:1] + places[n + 1 : n + 2])) for n in (0, 2)][
        : draw.randint(1, 2)
    ]


@pytest.mark.parametrize("kind", ["disco", "cmlm"])
@pytest.mark.parametrize("strategy", ["easy-first", "mask-predict"])
def test_pinned_words_are_words_of_every_output(small: Small, kind: str, strategy: str) -> None:
    if (kind, strategy) == ("cmlm", "easy-first"):
        return
    translator, draw = Translator.from_pretrained(getattr(small, kind)), random.Random(1)
    texts = sentences(60, seed=5)
    pins = [drawn_pins(draw) for _ in texts]
    found = translator.translate(texts, DecodingOptions(strategy, iterations=3), DecodeRequest(pins))
    kept = 0
    for own, each in zip(pins, found, strict=True):
        assert not each.refused or "tokens" in each.refused
        assert each.refused or all(contains(each.text, pin.text) for pin in own), (own, each.text)
        kept += not each.refused
    assert kept > 40


def test_results_with_pins_do_not_depend_on_what_else_is_asked(disco: Translator) -> None:
    texts = [TEXT, "", *sentences(8), TEXT]
    pins = [[Pin("Haus")], [], *[[Pin("Kind", n)] if n % 2 else [] for n in range(8)], [Pin("oft", 21)]]
    together = disco.translate(texts, THREE_PASSES, DecodeRequest(pins))
    for text, own, found in zip(texts, pins, together, strict=True):
        (alone,) = disco.translate([text], THREE_PASSES, DecodeRequest([own]))
        assert disco.translate(text, THREE_PASSES, DecodeRequest(own)) == alone
        assert (alone.text, alone.pinned, alone.refused) == (found.text, found.pinned, found.refused)
    without = DecodeRequest([[] for _ in texts])
    assert disco.translate(texts, THREE_PASSES, without) == disco.translate(texts, THREE_PASSES)


def test_pins_of_the_sentences_of_a_paragraph(disco: Translator) -> None:
    text = "The old house sees. Today the child finds!"
    pins = [Pin("Kind", sentence=1), Pin("Haus", 0)]
    found = disco.translate(text, request=DecodeRequest(pins), split=True)
    assert [contains(part.text, "Kind") for part in found.parts] == [False, True]
    assert found.parts[0].text.startswith("Haus")
    marked = [piece for piece, mark in zip(found.pieces, found.pinned, strict=True) if mark]
    assert "".join(marked).split() == ["Haus", "Kind"]


def test_one_text_that_is_refused_leaves_the_others(disco: Translator) -> None:
    impossible = {
        "at 22 does not fit: the model writes at most 22": [Pin("Haus", 22)],
        "overlap": [Pin("das Haus", 2), Pin("Kind", 3)],
        "the pins need": [Pin("a" * 60)],
        "is for sentence 1 (counted from 0), but the text has 1": [Pin("Haus", sentence=1)],
        "may be without a place": [Pin("Haus")] * 7,
    }
    pins = [*impossible.values(), [Pin("Haus")]]
    found = disco.translate([TEXT] * len(pins), DecodingOptions(iterations=2), DecodeRequest(pins))
    for why, each in zip(impossible, found, strict=False):
        assert why in each.refused
        assert (each.text, each.tokens) == ("", ())
    assert contains(found[-1].text, "Haus")


def test_mistakes_of_the_caller(disco: Translator, small: Small) -> None:
    for pins in ([[Pin("Haus")]], [Pin("Haus"), Pin("Kind")], ["Haus", "Kind"]):
        with pytest.raises(UserError, match="a list of pins for each of the 2 texts"):
            disco.translate([TEXT, TEXT], request=DecodeRequest(pins))
    with pytest.raises(UserError, match="cannot be pinned with strategy 'autoregressive'"):
        disco.translate(TEXT, DecodingOptions("autoregressive"), DecodeRequest([Pin("Haus")]))
    with pytest.raises(UserError, match="cannot be pinned with strategy 'beam'"):
        Translator.from_pretrained(small.autoregressive).translate(TEXT, request=DecodeRequest([Pin("Haus")]))


def test_pins_as_tokens(disco: Translator) -> None:
    ids = disco.text.source.encode(TEXT)
    word = tuple(disco.text.target.encode("Haus"))
    found = disco.translate_ids([ids, ids], request=DecodeRequest([(TokenPin(word, 3),), (TokenPin((1,)),)]))
    assert found[0].tokens[3] == "ĠHaus"
    assert "only words of the vocabulary" in found[1].refused


def test_every_pass_of_every_sentence_is_told(disco: Translator) -> None:
    texts, seen = ["The old house sees. Today the child finds!", "a" * 900, TEXT], list[Pass[str]]()
    pins = [[], [], [Pin("Haus", 1)]]
    request = DecodeRequest(pins, trace=True, on_pass=seen.append)
    found = disco.translate(texts, request=request, split=True, long="refuse")
    assert found[1].refused
    parts = {(t, n): part for t in (0, 2) for n, part in enumerate(found[t].parts or (found[t],))}
    assert {(now.text, now.sentence) for now in seen} == set(parts) == {(0, 0), (0, 1), (2, 0)}
    for (t, n), part in parts.items():
        own = [now for now in seen if (now.text, now.sentence) == (t, n)]
        assert part.trace is not None
        assert tuple(now.candidates for now in own) == part.trace.passes
        assert [now.step for now in own] == list(range(1, part.steps + 1))
        assert own[-1].candidates[own[-1].winner].tokens == part.tokens
    assert seen[-1].candidates[0].pinned[1]


@pytest.mark.parametrize("effort", ["normal", "high"])
def test_a_reranker_leaves_the_pins(small: Small, effort: str) -> None:
    translator = Translator.from_pretrained(small.disco, rerank_with="self")
    found = translator.translate(TEXT, DecodingOptions(effort=effort), DecodeRequest([Pin("Haus")]))
    assert contains(found.text, "Haus")
    assert sum(found.pinned) == 1
