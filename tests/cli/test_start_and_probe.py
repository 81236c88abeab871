"""disco start and disco probe as a user has them, and lists among the settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from disco_command import Disco
from disco_mt.nn.directory import read_config
from disco_mt.systems.build import load_weights
from disco_mt.systems.disco.model import DisCo
from disco_mt.training.recipe import Recipe, load_recipe
from small_model import Small
from tiny import tiny_config


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(Recipe(model=tiny_config(max_source=48, max_target=48)).as_toml(), encoding="utf-8")
    return path


# start


def test_start_writes_a_model_that_works(disco: Disco, small: Small, recipe: Path, tmp_path: Path) -> None:
    command = ("start", recipe, "--data", small.dataset, "--out", tmp_path / "out")
    done = disco(*command, "--start.model", small.disco, "--training.freeze", "encoder", "--threads", "1")
    assert (done.code, done.err) == (0, "")
    assert "what a training would start from" in done.out
    directory = read_config(tmp_path / "out")
    assert directory.frozen == ("encoder",)
    assert isinstance(load_weights(directory), DisCo)
    assert directory.extra["recipe"]["start"]["model"] == str(small.disco)
    assert "nothing has been trained yet" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    texts = [
        disco("translate", "The old house.", "--model", path).out for path in (tmp_path / "out", small.disco)
    ]
    assert texts[0] == texts[1]
    assert texts[0].strip()


def test_start_from_random_weights_follows_the_seed(
    disco: Disco, small: Small, recipe: Path, tmp_path: Path
) -> None:
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        command = ("start", recipe, "--data", small.dataset, "--out", tmp_path / name)
        assert disco(*command, "--training.seed", seed).code == 0
    one, same, other = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "same", "other")
    )
    assert one == same
    assert one != other


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--start.model", "nobody"), "there is no model 'nobody'"),
        (("--start.layers", "one"), "--start.layers"),
        (("--start.fit", "guess"), "least-squares"),
        (("--training.freeze", "cellar"), "names 'cellar', which a disco model does not have"),
        (("--threads", "-1"), "--threads must be at least 0"),
        (("--data", "nowhere"), "nowhere"),
        (("--model.tying", "some"), "'all'"),
    ],
)
def test_start_refuses(
    refused: Disco, small: Small, recipe: Path, tmp_path: Path, options: tuple[str, ...], expected: str
) -> None:
    command = ("start", recipe, "--data", small.dataset, "--out", tmp_path / "out")
    assert expected in refused(*command, *options).said


def test_start_needs_a_recipe_and_a_free_place(
    refused: Disco, small: Small, recipe: Path, tmp_path: Path
) -> None:
    (tmp_path / "taken").mkdir()
    where = ("--data", small.dataset, "--out", tmp_path / "taken")
    assert "already exists" in refused("start", recipe, *where).said
    assert "name a recipe first" in refused("start", *where).said
    assert "there is no recipe 'nothing'" in refused("start", "nothing", *where).said


# probe


def test_probe_prints_a_table_or_json(disco: Disco, small: Small) -> None:
    command = ("probe", "--model", small.disco, "--data", small.dataset)
    table = disco(*command)
    assert (table.code, table.err) == (0, "")
    figures = json.loads(disco(*command, "--json").out, parse_constant=pytest.fail)
    assert [line.rsplit(maxsplit=1)[0] for line in table.lines] == list(figures)
    assert figures["left to right"] > 0
    few = json.loads(disco(*command, "--json", "--split", "train", "--sentences", "1").out)
    assert few["16 or more visible"] is None  # there is no such word: null, which JSON has, not NaN
    assert few["nothing"] != figures["nothing"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--sentences", "0"), "--sentences must be at least 1, got 0"),
        (("--split", "test"), "has no test split; it has: train, valid"),
        (("--split", "dev"), "'train', 'valid', 'test'"),
        (("--model", "nobody"), "there is no model 'nobody'"),
        (("--data", "nowhere"), "nowhere"),
    ],
)
def test_probe_refuses(refused: Disco, small: Small, options: tuple[str, ...], expected: str) -> None:
    command = ("probe", "--model", small.disco, "--data", small.dataset)
    assert expected in refused(*command, *options).said


@pytest.mark.parametrize("kind", ["cmlm", "autoregressive"])
def test_probe_is_for_disco_models(refused: Disco, small: Small, kind: str) -> None:
    said = refused("probe", "--model", getattr(small, kind), "--data", small.dataset).said
    assert "is for models of kind disco" in said
    assert f"is of kind {kind}" in said


def test_probe_refuses_another_tokenizer(refused: Disco, small: Small) -> None:
    said = refused("probe", "--model", "en-de", "--data", small.dataset).said
    assert "has another source tokenizer" in said


# Lists


def test_lists_in_recipes_and_on_the_command_line(disco: Disco, small: Small, tmp_path: Path) -> None:
    recipe = load_recipe("opus.disco")
    assert recipe.start.layers == (1, 3, 6)
    assert recipe.training.freeze == ("encoder",)
    path = tmp_path / "again.toml"
    path.write_text(recipe.as_toml(), encoding="utf-8")
    assert "layers = [1, 3, 6]" in path.read_text(encoding="utf-8")
    assert load_recipe(str(path)) == recipe
    small_recipe = tmp_path / "small.toml"
    small_recipe.write_text(Recipe(model=tiny_config()).as_toml(), encoding="utf-8")
    command = ("start", small_recipe, "--data", small.dataset, "--out", tmp_path / "out")
    assert disco(*command, "--start.layers", "1", "3", "6", "--training.freeze", "encoder", "words").code == 2
    assert (
        disco(*command, "--start.layers", "1", "3", "6", "--training.freeze", "encoder", "layers.0").code == 0
    )
    noted = read_config(tmp_path / "out").extra["recipe"]
    assert (noted["start"]["layers"], noted["training"]["freeze"]) == ([1, 3, 6], ["encoder", "layers.0"])
