"""Frozen parts: not a bit of them changes, and models keep them in a file of their own."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_run
import torch
from safetensors.torch import load_file, save_file
from test_processes import assert_near, launch
from tiny_run import OBJECTIVE, OPTIONS, TOGETHER_FROZEN, frozen_model, go, last, same, story

from disco_mt.cli import main
from disco_mt.core.errors import UserError
from disco_mt.evaluation.dev import DevScore
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.directory import FROZEN, WEIGHTS, read_config, save_model, weights
from disco_mt.systems.build import build_model, load_weights
from disco_mt.training.averaging import average
from disco_mt.training.checkpoints import step_directories
from disco_mt.training.optimizer import build_optimizer
from small_model import make_small

FREEZE = replace(OPTIONS, freeze=("encoder",), dev_every=3, weight_decay=0.5)


def encoder_of(model: TranslationModel) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in weights(model).items() if name.startswith("encoder.")}


def climbing() -> Callable[[TranslationModel], DevScore]:
    """A scorer that likes each model better than the one before."""
    numbers = itertools.count(1)
    return lambda _: DevScore(float(next(numbers)), 1.0, 0.0)


# Training


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_not_a_bit_changes(tmp_path: Path, optimizer: Any) -> None:
    """In the run, in its best models and in their mean; everything else learns."""
    model = frozen_model(dropout=0.1)
    before, first = encoder_of(model), {name: tensor.clone() for name, tensor in weights(model).items()}
    options = replace(FREEZE, optimizer=optimizer)
    go(tmp_path / "run", options, trained=model, scorer=climbing())
    assert same(encoder_of(model), before)
    changed = {name for name, tensor in weights(model).items() if not torch.equal(tensor, first[name])}
    assert changed == first.keys() - before.keys()
    assert len(average(tmp_path / "run", tmp_path / "mean", number=3)) == 3
    for path in (*step_directories(tmp_path / "run" / "best"), tmp_path / "mean"):
        loaded = load_weights(read_config(path))
        assert loaded.frozen == ("encoder",)
        assert same(encoder_of(loaded), before)
    assert not same(weights(load_weights(read_config(tmp_path / "mean"))), weights(model))


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_only_what_learns_is_in_the_optimizer(optimizer: Any) -> None:
    model = frozen_model()
    model.freeze(("encoder", "layers.0.feed_forward"))
    found = build_optimizer(model, replace(OPTIONS, optimizer=optimizer))
    held = {id(parameter) for group in found.param_groups for parameter in group["params"]}
    names = {name for name, parameter in model.named_parameters() if id(parameter) in held}
    frozen = {
        name for name in weights(model) if name.startswith(("encoder.", "layers.0.feed_forward."))
    }  # but not layers.0.feed_forward_frame
    assert names == weights(model).keys() - frozen
    assert frozen


def test_frozen_parts_have_no_gradient_and_no_dropout(tmp_path: Path) -> None:
    """Seen while training is going on, before and after dev scores."""
    model, seen = frozen_model(dropout=0.3), []

    def watching(model: TranslationModel, batch: Any, key: int) -> Any:
        losses = OBJECTIVE(model, batch, key)
        frozen = [module.training for module in model.encoder.modules()]
        one, two = (model.encoder(batch.source)[0] for _ in range(2))
        no_gradient = all(parameter.grad is None for parameter in model.encoder.parameters())
        seen.append((any(frozen), model.layers.training, torch.equal(one, two), no_gradient))
        return losses

    go(tmp_path / "run", FREEZE, watching, trained=model)
    assert set(seen) == {(False, True, True, True)}
    assert model.layers[0].feed_forward.up.weight.requires_grad  # type: ignore[union-attr]


def test_freezing_is_exact() -> None:
    """What is named no more learns again."""
    model = frozen_model()
    model.freeze(("encoder", "words"))
    model.freeze(("words",))
    model.train()
    assert all(parameter.requires_grad for parameter in model.encoder.parameters())
    assert model.encoder.training
    assert not model.output.weight.requires_grad  # the same table
    assert model.frozen == ("words",)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_stopped_and_resumed_is_the_same(tmp_path: Path, optimizer: Any) -> None:
    options, count = replace(FREEZE, optimizer=optimizer), itertools.count(1)

    def interrupting(model: Any, batch: Any, key: int) -> Any:
        if next(count) == 17:
            signal.raise_signal(signal.SIGTERM)
        return OBJECTIVE(model, batch, key)

    go(tmp_path / "straight", options, trained=frozen_model(dropout=0.1))
    assert go(tmp_path / "run", options, interrupting, trained=frozen_model(dropout=0.1)).signal
    other = frozen_model(seed=9, dropout=0.1)  # whose weights must not matter: the checkpoint has all
    go(tmp_path / "run", options, resume=True, trained=other)
    assert same(last(tmp_path / "run"), last(tmp_path / "straight"))
    assert story(tmp_path / "run") == story(tmp_path / "straight")


def test_a_run_goes_on_with_the_same_parts_frozen(tmp_path: Path) -> None:
    go(tmp_path / "run", replace(FREEZE, max_steps=2), trained=frozen_model())
    with pytest.raises(UserError, match=r"training.freeze is \[\], but .* with \['encoder'\]"):
        go(tmp_path / "run", replace(FREEZE, freeze=()), resume=True, trained=frozen_model())


def test_two_processes_are_as_one(tmp_path: Path) -> None:
    """And so they are when the second comes back with other weights than the checkpoint's."""
    states = tmp_path / "states"
    options = replace(TOGETHER_FROZEN, encoder_states=str(states))
    go(tmp_path / "alone" / "run", options, trained=frozen_model())
    run = tmp_path / "pair" / "run"
    go(run, replace(options, max_steps=4), trained=frozen_model())
    ends = launch(run, f"frozen:{states}", "resume", "quiet")
    assert [code for code, _ in ends] == [0, 0], ends
    assert_near(run, tmp_path / "alone" / "run")
    assert len(list(states.glob("*.bin"))) == 1  # nobody has encoded with other weights


# Refusals


def test_an_unknown_part_is_named_with_those_that_exist(tmp_path: Path) -> None:
    for part in ("enkoder", "encoder.layers.7", "", "output_bias"):
        message = f"names '{part}', which a disco model does not have; its parts are encoder, words,"
        with pytest.raises(UserError, match=message):
            go(tmp_path / "run", replace(FREEZE, freeze=(part,)), trained=frozen_model())
    assert not (tmp_path / "run").exists()


def test_freezing_everything_is_refused(tmp_path: Path) -> None:
    every = tuple(name for name, _ in frozen_model().named_children())
    with pytest.raises(UserError, match=r"training\.freeze leaves nothing to train"):
        go(tmp_path / "run", replace(FREEZE, freeze=every), trained=frozen_model())
    options = replace(FREEZE, freeze=("encoder", "layers"), optimizer="muon")
    with pytest.raises(UserError, match="muon' is for the layers"):
        go(tmp_path / "run", options, trained=frozen_model())
    assert not (tmp_path / "run").exists()


def test_the_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small, run = make_small(tmp_path), tmp_path / "run"
    command = ["train", "phrasebook.disco", "--data", str(small.dataset), "--out", str(run), "--quiet"]
    sizes = ["--model.width", "16", "--model.encoder.hidden", "16", "--model.decoder.hidden", "16"]
    assert main([*command, *sizes, "--training.freeze", "encoder", "decoder"]) == 2
    assert "names 'decoder', which a disco model does not have" in capsys.readouterr().err
    assert not run.exists()


# Model directories


def save(path: Path, model: TranslationModel, parts: tuple[str, ...]) -> Path:
    model.freeze(parts)
    path.mkdir(parents=True)
    text = tiny_run.dataset(path.parent / "text").text.save(path)
    save_model(path, model, text, "# A model\n", {})
    return path


def config_of(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((path / "config.json").read_text(encoding="utf-8"))
    return content


def test_frozen_parts_have_a_file_of_their_own(tmp_path: Path) -> None:
    model = frozen_model()
    with torch.no_grad():
        model.encoder.words.weight.copy_(model.encoder.words.weight.half())
        model.encoder.words.weight[7, :3] = torch.tensor([-0.0, 65504.0, 2.0**-24])  # all in half precision
    path = save(tmp_path / "model", model, ("encoder", "layers.0.cross_attention"))
    assert config_of(path)["format_version"] == 2
    assert config_of(path)["frozen"] == ["encoder", "layers.0.cross_attention"]
    frozen, trained = load_file(path / FROZEN), load_file(path / WEIGHTS)
    assert frozen.keys() | trained.keys() == weights(model).keys()
    assert not frozen.keys() & trained.keys()
    assert {name.split(".")[0] for name in frozen} == {"encoder", "layers"}
    halves = {name for name, tensor in frozen.items() if tensor.dtype == torch.float16}
    assert "encoder.words.weight" in halves
    assert "encoder.positions.weight" not in halves
    loaded = load_weights(read_config(path))
    assert same(weights(loaded), weights(model))
    assert torch.equal(
        torch.signbit(loaded.encoder.words.weight[7]), torch.signbit(model.encoder.words.weight[7])
    )


def test_one_number_that_half_precision_lacks_keeps_a_table_whole(tmp_path: Path) -> None:
    for place, number in enumerate((1e-9, 1e6, 1 + 2.0**-12)):
        model = frozen_model()
        with torch.no_grad():
            model.encoder.words.weight.copy_(model.encoder.words.weight.half())
            model.encoder.words.weight[0, 0] = number
        path = save(tmp_path / str(place), model, ("encoder",))
        assert load_file(path / FROZEN)["encoder.words.weight"].dtype == torch.float32
        assert same(weights(load_weights(read_config(path))), weights(model))


def test_a_model_without_frozen_parts_is_written_as_ever(tmp_path: Path) -> None:
    path = save(tmp_path / "model", frozen_model(), ())
    assert config_of(path)["format_version"] == 1
    assert "frozen" not in config_of(path)
    assert not (path / FROZEN).exists()
    path = save(tmp_path / "fixed", frozen_model(), ("dropout",))  # a part without a single number
    assert (config_of(path)["format_version"], (path / FROZEN).exists()) == (1, False)


def test_directories_of_older_versions_load(tmp_path: Path) -> None:
    """Their config.json names none of the newer options."""
    model = tiny_run.model()
    path = save(tmp_path / "model", model, ())
    config = config_of(path)
    newer = ("norm_epsilon", "scale_embeddings", "output_bias", "start_token", "query_word", "length")
    for key in newer:
        del config["model"][key]
    (path / "config.json").write_text(json.dumps(config))
    assert same(weights(load_weights(read_config(path))), weights(model))
    assert read_config(path).model == model.config


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda file: file.unlink(), "frozen.safetensors is missing"),
        (lambda file: file.write_bytes(file.read_bytes()[:50]), r"frozen\.safetensors cannot be read"),
        (lambda file: save_file({"x": torch.zeros(1)}, file), "does not fit its config"),
    ],
    ids=["missing", "damaged", "another"],
)
def test_a_spoilt_file_is_named(tmp_path: Path, spoil: Callable[[Path], None], message: str) -> None:
    path = save(tmp_path / "model", frozen_model(), ("encoder",))
    spoil(path / FROZEN)
    with pytest.raises(UserError, match=message):
        load_weights(read_config(path))


def test_what_config_json_says_of_frozen_parts_is_checked(tmp_path: Path) -> None:
    path = save(tmp_path / "model", frozen_model(), ("encoder",))
    for frozen, message in (("encoder", "must be a list"), ([1], "must be a list"), (["cellar"], "'cellar'")):
        (path / "config.json").write_text(json.dumps(config_of(path) | {"frozen": frozen}))
        with pytest.raises(UserError, match=message):
            load_weights(read_config(path))


def test_a_shared_table_is_frozen_with_the_encoder(tmp_path: Path) -> None:
    """tying 'all': the table lies in the frozen file, once."""
    model = build_model(replace(frozen_model().config, tying="all"))
    path = save(tmp_path / "model", model, ("encoder",))
    assert "encoder.words.weight" in load_file(path / FROZEN)
    assert "words.weight" not in load_file(path / WEIGHTS)
    loaded = load_weights(read_config(path))
    assert not loaded.output.weight.requires_grad
    assert torch.equal(loaded.words.weight, model.words.weight)
