"""Which systems there are, with and without a vocabulary shortlist."""

from __future__ import annotations

import pytest
from runs import entry

from disco_mt.bench.entries import Weights, entries_of, with_shortlist
from disco_mt.bench.inputs import random_inputs
from disco_mt.cli.bench import BenchCommand
from disco_mt.core.errors import UserError

LISTS = "lists.safetensors"


def labels(kind: str, shortlist: str) -> list[str]:
    config = entry(kind).weights.config
    return [each.decoding for each in with_shortlist(entries_of(Weights("M", config)), shortlist)]


def test_a_shortlist_adds_entries_where_the_engine_can_use_it() -> None:
    fast = [f"easy-first K={beam}" for beam in (5, 3, 1)]
    listed = [f"easy-first K={beam}{more}" for beam in (5, 3, 1) for more in ("", " shortlist")]
    assert labels("disco", "") == [fast[0], *fast, *fast]  # reference, then two precisions
    assert labels("disco", LISTS) == [fast[0], *listed, *listed]


def test_the_shortlist_is_given_to_the_autoregressive_model_as_well() -> None:
    assert labels("autoregressive", LISTS) == ["beam 5", "beam 5 shortlist", "greedy", "greedy shortlist"] * 2
    assert labels("autoregressive", "") == ["beam 5", "greedy"] * 2


def test_random_weights_have_no_shortlist() -> None:
    inputs = random_inputs("desk", [5], 1)
    assert inputs.shortlisted("").entries == inputs.entries
    with pytest.raises(UserError, match="a shortlist belongs to a trained model: give --models or --suite"):
        inputs.shortlisted(LISTS)


def test_sentences_beyond_the_position_table_are_refused() -> None:
    with pytest.raises(UserError, match=r"5002 tokens, but a model of this size writes at most 1022"):
        random_inputs("base", [25, 5000], 1)


def test_the_command_is_repeated_with_its_shortlist() -> None:
    assert BenchCommand(shortlist=LISTS).typed() == "disco bench --shortlist lists.safetensors"
