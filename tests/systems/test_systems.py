"""The records of systems: errors, and that a decoder uses exactly the options that it lists."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodingOptions
from disco_mt.decoding.results import Hypothesis
from disco_mt.nn.base import TranslationModel
from disco_mt.systems import (
    SYSTEMS,
    check_model,
    check_pinnable,
    decode,
    decoder_for,
    disco,
    register,
    strategy_for,
    system_for,
)
from disco_mt.systems.build import build_model
from disco_mt.systems.objective import objective_for
from tiny import lively, padded, random_sources, tiny_config

EVERY = [(system.name, strategy) for system in SYSTEMS.values() for strategy in system.decoders]
VALUES: dict[str, st.SearchStrategy[object]] = {
    "iterations": st.integers(1, 6),
    "length_beam": st.integers(1, 5),
    "beam": st.integers(1, 4),
    "length_penalty": st.sampled_from([None, 0.0, 0.5, 1.7, 3.0]),
    "length_weight": st.sampled_from([None, 0.0, 0.5, 4.0]),
}
"""Every option but the strategy itself and the effort, which is a preset (`Decoder.efforts`)."""
SETTINGS = st.fixed_dictionaries(VALUES)


def model_of(kind: str, seed: int) -> TranslationModel:
    return lively(build_model(tiny_config(kind=kind, length_classes=11), seed), seed)


def decoded(
    model: TranslationModel, strategy: str, chosen: dict[str, object], seed: int
) -> list[Hypothesis[int]]:
    source = padded(random_sources([4, 7, 2], seed))
    return decode(model, source, DecodingOptions(strategy, **chosen))  # type: ignore[arg-type]


# Options that a decoder reads


def test_every_option_is_tried() -> None:
    options = vars(DecodingOptions()).keys()
    assert options - VALUES.keys() == {"strategy", "effort"}
    for system in SYSTEMS.values():
        for decoder in system.decoders.values():
            assert set(decoder.options) <= VALUES.keys()


@pytest.mark.parametrize(("kind", "strategy"), EVERY)
@given(st.integers(0, 1000), SETTINGS, SETTINGS)
@settings(max_examples=12, deadline=None)
def test_what_a_decoder_does_not_list_changes_nothing(
    kind: str, strategy: str, seed: int, one: dict[str, object], other: dict[str, object]
) -> None:
    listed = {name: one[name] for name in system_for(kind).decoders[strategy].options}
    model = model_of(kind, seed)
    assert decoded(model, strategy, one, seed) == decoded(model, strategy, other | listed, seed)


@pytest.mark.parametrize(("kind", "strategy"), EVERY)
def test_what_a_decoder_lists_makes_a_difference(kind: str, strategy: str) -> None:
    """Otherwise one translation would have several names."""
    base = {"iterations": 2, "length_beam": 4, "beam": 3, "length_penalty": 1.0, "length_weight": 0.0}
    change = {"iterations": 1, "length_beam": 1, "beam": 1, "length_penalty": 3.0, "length_weight": 9.0}
    found = [(model_of(kind, seed), seed) for seed in range(4)]
    before = [decoded(model, strategy, base, seed) for model, seed in found]
    for name in system_for(kind).decoders[strategy].options:
        changed = base | {name: change[name]}
        assert [decoded(model, strategy, changed, seed) for model, seed in found] != before, name


@pytest.mark.parametrize(("kind", "strategy"), EVERY)
def test_a_decoder_has_the_efforts_that_it_lists(kind: str, strategy: str) -> None:
    model, source = model_of(kind, 1), padded(random_sources([5, 3]))
    able = system_for(kind).decoders[strategy].efforts
    assert ("high" in able) == (strategy == "easy-first")
    assert "normal" in able
    for effort in ("fast", "normal", "high"):
        options = DecodingOptions(strategy, effort, iterations=3, length_beam=3)
        if effort in able:
            assert len(decode(model, source, options)) == 2
        else:
            told = f"strategy '{strategy}' of a model of kind {kind} has no effort '{effort}'; it has: "
            with pytest.raises(UserError, match=told + ", ".join(able)):
                decode(model, source, options)


@pytest.mark.parametrize(("kind", "strategy"), EVERY)
def test_passes_are_recorded_where_a_decoder_says_so(kind: str, strategy: str) -> None:
    """Only decoders that refine have passes to show, and only those can be pinned."""
    refines = strategy not in ("autoregressive", "beam", "greedy")
    decoder = decoder_for(kind, strategy)
    assert decoder.trace == decoder.pins == refines
    assert (decoder.order is not None) == (refines and strategy != "mask-predict")


# Refusals


def test_an_unknown_kind_is_refused_with_those_that_exist() -> None:
    told = r"model\.kind must be one of disco, cmlm, autoregressive, got 'mamba'; .* disco --plugin FILE"
    for ask in (
        lambda: system_for("mamba"),
        lambda: check_model(tiny_config(kind="mamba")),
        lambda: strategy_for("mamba", ""),
        lambda: check_pinnable("mamba", "easy-first"),
        lambda: build_model(tiny_config(kind="mamba")),
    ):
        with pytest.raises(UserError, match=told):
            ask()


def test_options_of_other_systems_are_refused() -> None:
    for kind, name, whose in (
        ("disco", "contextless", "autoregressive"),
        ("cmlm", "contextless", "autoregressive"),
        ("cmlm", "start_token", "disco"),
        ("autoregressive", "query_word", "disco"),
    ):
        with pytest.raises(UserError, match=rf"model\.{name} is for {whose} models, not {kind}"):
            check_model(tiny_config(kind=kind, **{name: True}))
    assert check_model(tiny_config(kind="disco", start_token=True, query_word=True)) is SYSTEMS["disco"]
    assert check_model(tiny_config(kind="autoregressive", contextless=True)) is SYSTEMS["autoregressive"]
    for kind in SYSTEMS:
        assert check_model(tiny_config(kind=kind)).name == kind


def test_a_strategy_that_does_not_fit_is_refused_with_those_that_do() -> None:
    assert [strategy_for(kind, "") for kind in SYSTEMS] == ["easy-first", "mask-predict", "beam"]
    with pytest.raises(
        UserError, match=r"'easy-first' does not fit a model of kind cmlm; for cmlm there are: mask-predict$"
    ):
        strategy_for("cmlm", "easy-first")
    with pytest.raises(
        UserError, match=r"'easyfirst' is not known; for autoregressive there are: beam, greedy$"
    ):
        strategy_for("autoregressive", "easyfirst")
    with pytest.raises(UserError, match=r"is not known; .*; orders joined with \+ are now effort high"):
        decode(model_of("disco", 1), padded([[7]]), DecodingOptions("easy-first+left-to-right"))


def test_an_objective_is_the_first_unless_another_is_named() -> None:
    assert [objective_for(kind, "") for kind in SYSTEMS] == ["disco", "cmlm", "autoregressive"]
    assert objective_for("disco", "cloze") == "cloze"
    with pytest.raises(UserError, match="'disco' does not fit a model of kind autoregressive"):
        objective_for("autoregressive", "disco")


# Systems from outside


def test_a_registered_system_is_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = replace(disco.SYSTEM, name="copy", label="Copy", score=None, model_options=())
    monkeypatch.setitem(SYSTEMS, "copy", copy)  # so that it is gone at the end
    del SYSTEMS["copy"]
    assert register(copy) is copy
    assert register(copy) is copy  # a plugin that is imported twice
    assert system_for("copy") is copy
    assert strategy_for("copy", "") == "easy-first"
    model = lively(build_model(tiny_config(kind="copy", length_classes=11), 3), 3)
    same = model_of("disco", 3)
    source = padded(random_sources([4, 2]))
    assert decode(model, source) == decode(same, source)
    with pytest.raises(UserError, match=r"model\.start_token is for disco models, not copy"):
        check_model(tiny_config(kind="copy", start_token=True))
    with pytest.raises(UserError, match="must be one of disco, cmlm, autoregressive, copy, got 'x'"):
        system_for("x")


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(UserError, match="there is already a system 'disco'; choose another name"):
        register(replace(disco.SYSTEM, label="Mine"))
    assert SYSTEMS["disco"] is disco.SYSTEM
    assert register(disco.SYSTEM) is disco.SYSTEM
