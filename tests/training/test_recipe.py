"""Recipes: what is left out of one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from disco_mt.core.errors import UserError
from disco_mt.data.dataset import Dataset
from disco_mt.data.prepare import prepare
from disco_mt.training.recipe import Recipe, load_recipe, shipped_recipes
from small_model import prepare_options, sentences, write_corpus

SMALL = """
[model]
width = 16
encoder = { layers = 1, heads = 2, hidden = 32 }
decoder = { layers = 1, heads = 2, hidden = 32 }
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("recipes")
    for split, number in (("train", 200), ("valid", 4)):
        write_corpus(folder, split, sentences(number))
    prepare(prepare_options(folder, folder / "data"), quiet=True)
    return Dataset.open(folder / "data")


def recipe(folder: Path, model: str = "") -> Recipe:
    path = folder / "small.toml"
    path.write_text(SMALL + model)
    return load_recipe(str(path))


def test_lengths_left_out_come_from_the_data(dataset: Dataset, tmp_path: Path) -> None:
    splits = dataset.splits.values()
    source = 1 + max(split.source_lengths.max() for split in splits)
    target = 1 + max(split.target_lengths.max() for split in splits)
    model = recipe(tmp_path).for_data(dataset).model
    assert (model.max_source, model.max_target, model.length_classes) == (source, target, target + 1)
    assert 3 < target < 100


def test_lengths_that_are_named_stay(dataset: Dataset, tmp_path: Path) -> None:
    model = recipe(tmp_path, "max_source = 1024\nlength_classes = 300\n").for_data(dataset).model
    assert (model.max_source, model.length_classes) == (1024, 300)
    assert model.max_target < 100
    with pytest.raises(UserError, match=r"model.max_source must be at least 3, got 2"):
        recipe(tmp_path, "max_source = 2\n")


def test_a_recipe_for_real_corpora_has_no_lengths() -> None:
    for name in ("small.teacher", "small.disco"):
        model = load_recipe(name).model
        assert (model.max_source, model.max_target, model.length_classes) == (0, 0, 0)
        assert model.dropout > 0
        assert load_recipe(name).training.cooldown_steps > 0


@pytest.mark.parametrize("name", shipped_recipes())
def test_a_recipe_is_written_as_it_is_read(name: str, tmp_path: Path) -> None:
    shipped = load_recipe(name)
    (tmp_path / "again.toml").write_text(shipped.as_toml())
    again = load_recipe(str(tmp_path / "again.toml"))
    assert again == replace(shipped, decoding=again.decoding)
