"""Systems that leave something out: which there are, and what is said of them."""

from __future__ import annotations

import pytest
from runs import system

from disco_mt.bench.inputs import random_inputs
from disco_mt.bench.system import Weights, systems_of, with_pruned
from disco_mt.cli.bench import BenchCommand
from disco_mt.core.errors import UserError
from disco_mt.engine.pruning import EXACT, Pruning

BOTH = Pruning(drop_behind=0.2, drop_after=1, shortlist="lists.safetensors")


def labels(kind: str, pruning: Pruning) -> list[str]:
    config = system("disco" if kind == "disco" else "autoregressive").weights.config
    return [each.decoding for each in with_pruned(systems_of(Weights("M", config)), pruning)]


def test_every_way_of_pruning_has_its_row_and_both_together() -> None:
    fast = [f"easy-first K={beam}" for beam in (5, 3, 1)]
    ways = ("", " drop 0.2", " shortlist", " drop 0.2 shortlist")
    pruned = [f"easy-first K={beam}{way}" for beam in (5, 3) for way in ways] + [fast[-1]]
    assert labels("disco", EXACT) == [fast[0], *fast, *fast]  # plain torch, then two precisions
    assert labels("disco", BOTH) == [fast[0], *pruned, *pruned]
    assert labels("disco", Pruning(drop_behind=0.2)).count("easy-first K=5 drop 0.2") == 2


def test_the_shortlist_is_given_to_the_autoregressive_model_as_well() -> None:
    one = ["beam 5", "beam 5 shortlist", "greedy", "greedy shortlist"]
    assert labels("at", BOTH) == [*one, *one]
    assert labels("at", Pruning(drop_behind=0.2)) == ["beam 5", "greedy"] * 2


def test_random_weights_have_nothing_to_prune() -> None:
    inputs = random_inputs("desk", [5], 1)
    assert inputs.pruned(EXACT).systems == inputs.systems
    with pytest.raises(UserError, match=r"trained weights: give --models.*--record with --drop-behind"):
        inputs.pruned(BOTH)


def test_sentences_beyond_the_position_table_are_refused() -> None:
    with pytest.raises(UserError, match=r"5002 tokens, but a model of this size writes at most 1022"):
        random_inputs("base", [25, 5000], 1)


def test_the_command_is_repeated_with_its_pruning() -> None:
    assert BenchCommand(pruning=BOTH).typed() == (
        "disco bench --drop-behind 0.2 --drop-after 1 --shortlist lists.safetensors"
    )
