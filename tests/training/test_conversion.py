"""The start in closed form: what a DisCo takes over from an autoregressive teacher, and how well it fits."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from disco_mt import context
from disco_mt.cli import main
from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory
from disco_mt.core.special_tokens import EOS, NUM_SPECIAL
from disco_mt.data.dataset import Dataset
from disco_mt.data.phrasebook import write_phrasebook
from disco_mt.data.prepare import PrepareOptions, prepare
from disco_mt.evaluation.probe import probe
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.nn.directory import read_config, save_model, weights
from disco_mt.nn.find import find_model
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.build import build_model, load_weights
from disco_mt.systems.disco.model import DisCo
from disco_mt.training.recipe import Recipe
from disco_mt.training.start import Fitted, StartOptions, start_from
from leakage import leaks, visibilities
from small_model import Small, make_small
from tiny import POOLED, PRIOR, lively, padded, random_options, random_sources, tiny_config

SHIPPED = "en-de-teacher"
DEEP = Stack(3, 2, 32)
# What a student has that its teacher has not; both have the same options otherwise.
STUDENT: dict[str, Any] = {"kind": "disco", "start_token": True, "query_word": True, "length": POOLED}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return make_small(tmp_path_factory.mktemp("small"))


def config_for(dataset: Dataset, **changes: object) -> ModelConfig:
    size = dataset.text.source.vocabulary_size
    sizes = {"source_vocabulary": size, "target_vocabulary": size}
    return tiny_config(**({"max_source": 48, "max_target": 48, "decoder": DEEP} | sizes | changes))


def make_teacher(path: Path, dataset: Dataset, **changes: object) -> Path:
    """An autoregressive model directory of the dataset's tokenizers; random weights, but lively ones."""
    model = lively(build_model(config_for(dataset, kind="autoregressive", **changes))).float()
    with atomic_directory(path) as directory:
        save_model(directory, model, dataset.text.save(directory), "# A teacher\n", {})
    return path


def started(dataset: Dataset, config: ModelConfig, options: StartOptions) -> TranslationModel:
    model = build_model(config)
    start_from(model, options, dataset)
    return model.eval()


def student_of(teacher: ModelConfig, layers: int) -> ModelConfig:
    """A DisCo that can take over so many layers; its start token has one of the teacher's positions."""
    decoder = replace(teacher.decoder, layers=layers)
    return replace(teacher, decoder=decoder, max_target=teacher.max_target - 1, **STUDENT)


# What is taken over


@pytest.mark.parametrize("seed", range(6))
@torch.no_grad()
def test_the_first_layer_computes_what_the_teachers_does(small: Small, tmp_path: Path, seed: int) -> None:
    """As long as it sees what the teacher sees (EOS is hidden) and asks what the teacher asks."""
    dataset, options = Dataset.open(small.dataset), random_options(random.Random(seed), "autoregressive")
    path = make_teacher(tmp_path / "teacher", dataset, **options | {"norm": "post"})
    teacher = load_weights(read_config(path)).double()
    assert isinstance(teacher, Autoregressive)
    config = student_of(teacher.config, 1)
    model = started(dataset, config, StartOptions(str(path), layers=(1,))).double()
    assert isinstance(model, DisCo)
    source, target = padded(random_sources([4, 5])), padded(random_sources([6, 3], seed), extra=1)
    words, eos = context.words_and_eos(target)
    expected = teacher.states(target, teacher.encode(source))
    without_eos = context.left_to_right(words, torch.zeros_like(eos))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "queries", lambda *_: expected[0])
        found = model.decode(target, without_eos, model.encode(source))
        torch.testing.assert_close(found[words], expected[1][words])
        seeing_eos = model.decode(target, context.left_to_right(words, eos), model.encode(source))
    assert not torch.allclose(seeing_eos[words], expected[1][words])


@torch.no_grad()
def test_layers_are_taken_over_in_the_order_in_which_they_are_named(small: Small, tmp_path: Path) -> None:
    dataset = Dataset.open(small.dataset)
    path = make_teacher(tmp_path / "teacher", dataset)
    teacher = load_weights(read_config(path))
    model = started(dataset, student_of(teacher.config, 2), StartOptions(str(path), layers=(3, 1)))
    mine, theirs = weights(model), weights(teacher)
    for name, tensor in mine.items():
        if name.startswith(("query_word", "length.")):
            assert name not in theirs
        else:
            there = name.replace("layers.0.", "layers.2.", 1) if name.startswith("layers.0.") else name
            there = name.replace("layers.1.", "layers.0.", 1) if name.startswith("layers.1.") else there
            assert torch.equal(tensor, theirs[there]), name


def test_a_cmlm_begins_as_its_teacher(small: Small, tmp_path: Path) -> None:
    """All but its length predictor."""
    dataset = Dataset.open(small.dataset)
    path = make_teacher(tmp_path / "teacher", dataset)
    teacher = weights(load_weights(read_config(path)))
    model = weights(started(dataset, config_for(dataset, kind="cmlm"), StartOptions(str(path))))
    assert model.keys() - teacher.keys() == {"encoder.length.weight"}
    assert all(torch.equal(model[name], teacher[name]) for name in teacher)


def test_a_fitted_model_goes_on_with_the_prior_of_other_data(small: Small, tmp_path: Path) -> None:
    """Of the length prior the numbers may differ: they were fitted to other sentences."""
    dataset = Dataset.open(small.dataset)
    config = config_for(dataset, length=POOLED)
    with atomic_directory(tmp_path / "before") as directory:
        save_model(directory, build_model(config), dataset.text.save(directory), "# A student\n", {})
    now = replace(config, length=replace(POOLED, slope=1.2, spread=2.0))
    model = started(dataset, now, StartOptions(str(tmp_path / "before")))
    assert model.config.length.slope == 1.2
    with pytest.raises(UserError, match=r"model.length is {'predictor': 'pooled', 'prior': True} there"):
        started(dataset, replace(config, length=PRIOR), StartOptions(str(tmp_path / "before")))


# The fit


def test_the_fit_recovers_an_affine_map() -> None:
    generator = torch.Generator().manual_seed(0)
    maps = [(torch.randn(5, 5, generator=generator).double(), torch.randn(5).double()) for _ in range(2)]
    fit = Fitted(width=5, layers=2)
    for rows in (7, 40, 1):
        inputs = torch.randn(rows, 5, generator=generator).double()
        fit.take(inputs, [inputs @ weight.T + bias for weight, bias in maps])
    for (weight, bias), (found_weight, found_bias) in zip(maps, fit.maps(), strict=True):
        torch.testing.assert_close(found_weight, weight, rtol=0, atol=1e-5)
        torch.testing.assert_close(found_bias, bias, rtol=0, atol=1e-5)


def test_the_fit_is_the_best_one_where_none_is_exact() -> None:
    """Against torch's own least squares."""
    generator = torch.Generator().manual_seed(0)
    inputs, states = (torch.randn(60, 4, generator=generator).double() for _ in range(2))
    fit = Fitted(width=4, layers=1)
    for part in (slice(0, 20), slice(20, 60)):
        fit.take(inputs[part], [states[part]])
    ((weight, bias),) = fit.maps()
    expected = torch.linalg.lstsq(torch.cat([inputs, torch.ones(60, 1).double()], 1), states).solution
    torch.testing.assert_close(torch.cat([weight.T, bias[None]]), expected, rtol=0, atol=1e-5)


def test_a_constant_input_does_not_break_the_fit() -> None:
    """The ridge: no dimension can be divided by its variance of 0."""
    fit = Fitted(width=3, layers=1)
    inputs = torch.tensor([[1.0, 2.0, 0.0], [2.0, 2.0, 0.0], [5.0, 2.0, 0.0]])
    fit.take(inputs, [3 * inputs])
    ((weight, bias),) = fit.maps()
    torch.testing.assert_close(inputs.double() @ weight.T + bias, 3 * inputs.double(), rtol=0, atol=1e-4)


def test_the_mean_word() -> None:
    fit = Fitted(width=2, layers=1)
    assert fit.mean_word().tolist() == [0, 0]
    fit.take_words(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    fit.take_words(torch.tensor([[5.0, 0.0]]))
    assert fit.mean_word().tolist() == [3, 2]


def test_what_is_fitted_and_what_stays(small: Small, tmp_path: Path) -> None:
    """Projections above the first layer, the anchor, the query word and the bias of special tokens."""
    dataset = Dataset.open(small.dataset)
    path = make_teacher(tmp_path / "teacher", dataset, tying="decoder", output_bias=True)
    teacher = load_weights(read_config(path))
    options = StartOptions(str(path), fit="least-squares", positions=500)
    model = started(dataset, student_of(teacher.config, 3), options)
    before, after = weights(teacher), weights(model)
    changed = {name for name in before if not torch.allclose(before[name], after[name], atol=1e-3)}
    projections = {
        f"layers.{layer}.self_attention.key_value.{kind}" for layer in (1, 2) for kind in ("weight", "bias")
    }
    assert changed == projections | {"words.weight", "output_bias"}
    rows = (before["words.weight"] != after["words.weight"]).any(dim=1)
    assert rows.nonzero().flatten().tolist() == [EOS]
    assert isinstance(model, DisCo)
    assert model.query_word is not None
    assert torch.equal(after["words.weight"][EOS], model.query_word)
    assert (after["output_bias"][:NUM_SPECIAL] == -100).all()
    assert torch.equal(after["output_bias"][NUM_SPECIAL:], before["output_bias"][NUM_SPECIAL:])


def test_an_encoder_that_shares_the_words_stays_as_it_was(small: Small, tmp_path: Path) -> None:
    """tying 'all': the encoder has always read EOS, so that vector is no anchor's to change."""
    dataset = Dataset.open(small.dataset)
    path = make_teacher(tmp_path / "teacher", dataset, tying="all")
    teacher = load_weights(read_config(path))
    options = StartOptions(str(path), fit="least-squares", positions=500)
    model = started(dataset, student_of(teacher.config, 3), options)
    assert torch.equal(model.words.weight, teacher.words.weight)


@pytest.fixture(scope="module")
def phrases(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The phrasebook in the tokens of the shipped teacher."""
    folder = tmp_path_factory.mktemp("phrases")
    write_phrasebook(folder / "text", train=1500, valid=40, test=1, translations=1)
    files = [folder / "text" / f"{name}" for name in ("train.en", "train.de", "valid.en", "valid.de")]
    options = PrepareOptions(*files[:2], folder / "data", "en", "de", *files[2:])
    prepare(replace(options, tokenizers=find_model(SHIPPED)), quiet=True)
    return Dataset.open(folder / "data")


def test_fitted_is_better_than_copied_before_any_training(phrases: Dataset) -> None:
    config = student_of(read_config(find_model(SHIPPED)).model, 2)
    copied, fitted = (
        started(phrases, config, StartOptions(SHIPPED, (1, 3), fit, positions=6000))
        for fit in ("copy", "least-squares")
    )
    assert isinstance(copied, DisCo)
    assert isinstance(fitted, DisCo)
    before, after = (probe(model, phrases.splits["valid"], 40).figures() for model in (copied, fitted))
    for name, gain in {"left to right": 1.0, "random": 0.3, "nothing": 0.5}.items():
        assert after[name] < before[name] - gain, name


@pytest.mark.parametrize("layers", [(1,), (1, 3), (1, 2, 3)])
@torch.no_grad()
def test_a_converted_model_does_not_leak(phrases: Dataset, layers: tuple[int, ...]) -> None:
    config = student_of(read_config(find_model(SHIPPED)).model, len(layers))
    options = StartOptions(SHIPPED, layers, "least-squares", positions=300)
    model = started(phrases, config, options).double()
    target = padded(random_sources([5]))
    for name, visible in visibilities(target, key=1).items():
        assert leaks(model, model.decode, target, visible) == [], name
    everything = torch.ones(1, 6, 6, dtype=torch.bool)
    assert leaks(model, lambda *given: model.decode(given[0], everything, given[2]), target, ~everything)


# Refusals, on the command line


def write_recipe(path: Path, config: ModelConfig) -> Path:
    path.write_text(Recipe(model=config).as_toml(), encoding="utf-8")
    return path


REFUSALS = {
    "no such layer": (["--start.layers", "1", "3", "4"], "names decoder layer 4, but"),
    "layers count from 1": (["--start.layers", "0", "1", "2"], "names decoder layer 0, but"),
    "too few layers": (["--start.layers", "1", "3"], "takes over 2 decoder layers (1, 3), but model.decoder"),
    "all its layers": (["--model.decoder.layers", "2"], "(1, 2, 3), but model.decoder.layers is 2"),
    "width": (["--model.width", "32"], "model.width is 16 there, 32 here"),
    "activation": (["--model.activation", "relu"], "model.activation is 'gelu' there, 'relu' here"),
    "source positions": (["--model.max-source", "60"], "model.max_source is 48 there, 60 here"),
    "the start token's": (["--model.max-target", "48"], "max_target must be 47, got 48"),
    "target positions": (["--model.no-start-token"], "max_target must be 48, got 47"),
    "kind": (
        [
            "--model.kind",
            "cmlm",
            "--model.no-start-token",
            "--model.no-query-word",
            "--model.max-target",
            "48",
        ],
        "turns an autoregressive model into a disco one, not autoregressive into cmlm",
    ),
    "fit": (["--start.fit", "magic"], "least-squares"),
    "positions": (["--start.positions", "0"], "start.positions must be at least 1, got 0"),
    "no model": (["--start.model", "nobody"], "there is no model 'nobody'"),
}


@pytest.fixture(scope="module")
def command(small: Small, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """disco start RECIPE ..., as it works."""
    folder, dataset = tmp_path_factory.mktemp("command"), Dataset.open(small.dataset)
    teacher = make_teacher(folder / "teacher", dataset)
    config = student_of(config_for(dataset, kind="autoregressive"), 3)
    recipe = write_recipe(folder / "student.toml", config)
    start = ["--start.model", str(teacher), "--start.fit", "least-squares"]
    return ["start", str(recipe), "--data", str(small.dataset), *start]


def test_the_command_works(command: list[str], tmp_path: Path) -> None:
    assert main([*command, "--start.layers", "1", "2", "3", "--out", str(tmp_path / "out")]) == 0
    noted = read_config(tmp_path / "out").extra["recipe"]["start"]
    assert (noted["layers"], noted["fit"], len(noted["weights_sha256"])) == ([1, 2, 3], "least-squares", 64)


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    options, message = REFUSALS[name]
    try:
        code = main([*command, "--out", str(tmp_path / "out"), *options])
    except SystemExit as left:  # how tyro ends
        code = int(left.code or 0)
    assert code == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


def test_another_tokenizer_is_refused(
    command: list[str], phrases: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--data", str(phrases.path), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert "the model to start from" in error
    assert "has another source tokenizer" in error
    assert not list(tmp_path.iterdir())
