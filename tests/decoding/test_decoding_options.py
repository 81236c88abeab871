"""Options check themselves; a model's defaults fill unset ones; files of 0.1 stay readable."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodeRequest, DecodingDefaults, DecodingOptions, read_defaults

TUNED = DecodingDefaults(length_penalty=1.4, length_weight=0.5, rerank="self")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"effort": "highest"}, "effort must be one of fast, normal, high; got 'highest'"),
        ({"iterations": 0}, "iterations must be at least 1, got 0"),
        ({"length_beam": 0}, "length_beam must be at least 1, got 0"),
        ({"beam": -1}, "beam must be at least 1, got -1"),
        ({"length_penalty": -0.5}, r"length_penalty must be at least 0.*, got -0\.5"),
    ],
)
def test_impossible_options_are_named(wrong: dict[str, object], why: str) -> None:
    with pytest.raises(UserError, match=why):
        DecodingOptions(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=why):
        replace(DecodingOptions(), **wrong)  # type: ignore[arg-type]
    if wrong.keys() <= {field.name for field in fields(DecodingDefaults)}:
        with pytest.raises(UserError, match=why):
            DecodingDefaults(**wrong)  # type: ignore[arg-type]


def test_an_impossible_request_is_named() -> None:
    with pytest.raises(UserError, match="batch_tokens must be at least 1, got 0"):
        DecodeRequest(batch_tokens=0)


def test_what_is_watched() -> None:
    assert not DecodeRequest().watched
    assert DecodeRequest(trace=True).watched
    assert DecodeRequest(on_pass=print).watched


def test_only_high_effort_means_more_than_one_order() -> None:
    for effort in ("", "fast", "normal"):
        options = DecodingOptions("mask-predict", effort)
        assert (options.orders, options.until_all_converge) == (("mask-predict",), False)
        assert not options.both_directions
    high = DecodingOptions("easy-first", "high")
    assert high.orders == ("easy-first", "left-to-right", "right-to-left")
    assert high.until_all_converge
    assert high.both_directions


def test_a_number_that_nobody_chose_is_the_papers() -> None:
    assert (DecodingOptions().alpha, DecodingOptions().weight) == (1.0, 0.0)
    chosen = DecodingOptions(length_penalty=0.0, length_weight=2.0)
    assert (chosen.alpha, chosen.weight) == (0.0, 2.0)


# A model's own defaults


def test_defaults_fill_what_was_not_asked_for() -> None:
    filled = TUNED.fill(DecodingOptions("easy-first"), reranked=True)
    expected = DecodingOptions("easy-first", "normal", length_penalty=1.4, length_weight=0.5)
    assert filled == expected
    assert TUNED.fill(filled, reranked=True) == filled  # twice is once
    asked = DecodingOptions("easy-first", "high", 3, 2, 1, 0.0, 0.0)
    assert TUNED.fill(asked, reranked=True) == asked


def test_fast_tries_two_lengths_at_most() -> None:
    lengths = [
        DecodingDefaults().fill(DecodingOptions(effort="fast", length_beam=beam), True).length_beam
        for beam in (1, 2, 5)
    ]
    assert lengths == [1, 2, 2]
    assert DecodingDefaults().fill(DecodingOptions(), True).length_beam == 5


def test_an_effort_that_was_chosen_for_reranking_needs_a_reranker() -> None:
    careful = DecodingDefaults(rerank="self", effort="high")
    assert careful.fill(DecodingOptions(), reranked=True).effort == "high"
    assert careful.fill(DecodingOptions(), reranked=False).effort == "normal"
    assert careful.fill(DecodingOptions(effort="fast"), reranked=True).effort == "fast"


# Files


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, DecodingDefaults()),
        ({"length_penalty": 1.6}, DecodingDefaults(length_penalty=1.6)),
        ({"length_weight": 1.0, "rerank": "self"}, DecodingDefaults(length_weight=1.0, rerank="self")),
        ({"length_weight": 1.0, "rescore_with": "self"}, DecodingDefaults(length_weight=1.0, rerank="self")),
        ({"rescore_with": "none"}, DecodingDefaults()),
        ({"settle": "winner", "read": "left-to-right"}, DecodingDefaults()),
        ({"rescore_with": "self", "settle": "all"}, DecodingDefaults(rerank="self", effort="high")),
        ({"rescore_with": "self", "read": "both-ways"}, DecodingDefaults(rerank="self", effort="high")),
        ({"rerank": "self", "effort": "high"}, DecodingDefaults(rerank="self", effort="high")),
    ],
)
def test_tables_of_every_release_are_read(table: dict[str, object], expected: DecodingDefaults) -> None:
    assert read_defaults(table, "config.json: extra.decoding") == expected


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ([1], r"must be a table, got \[1\]"),
        ({"rerank": "another"}, r"rerank must be one of \w.*; got 'another'"),
        ({"rescore_with": "another"}, r"rerank must be one of \w.*; got 'another'"),
        ({"settle": "some"}, r"settle must be one of \w.*; got 'some'"),
        ({"read": "aloud"}, r"read must be one of \w.*; got 'aloud'"),
        ({"effort": "great"}, r"effort must be one of \w.*; got 'great'"),
        ({"length_penalty": -1}, "length_penalty must be at least 0"),
        ({"length_penalty": "much"}, "length_penalty"),
        ({"lenght_penalty": 1.0}, "lenght_penalty"),
    ],
)
def test_a_table_that_cannot_be_used_is_named_with_its_place(table: object, why: str) -> None:
    with pytest.raises(UserError, match=rf"config\.json: extra\.decoding.*{why}"):
        read_defaults(table, "config.json: extra.decoding")
