"""A subset of a dataset is a dataset."""

from __future__ import annotations

from pathlib import Path

import pytest

from disco_mt.core.errors import UserError
from disco_mt.data.dataset import Dataset
from disco_mt.data.prepare import prepare
from disco_mt.data.subset import write_subset
from small_model import prepare_options, sentences, write_corpus


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    for split, number in (("train", 60), ("valid", 4)):
        write_corpus(folder, split, sentences(number))
    prepare(prepare_options(folder, folder / "data"), quiet=True)
    return folder / "data"


def pairs(path: Path) -> list[tuple[list[int], list[int]]]:
    train = Dataset.open(path).splits["train"]
    return [tuple(side.tolist() for side in train.pair(i)) for i in range(len(train))]  # type: ignore[misc]


def test_a_part_has_whole_pairs_and_the_same_dev_set(whole: Path, tmp_path: Path):
    write_subset(whole, tmp_path / "20", 20)
    write_subset(whole, tmp_path / "7", 7)
    every, twenty, seven = pairs(whole), pairs(tmp_path / "20"), pairs(tmp_path / "7")
    assert (len(every), len(twenty), len(seven)) == (60, 20, 7)
    assert all(pair in every for pair in twenty)
    assert all(pair in twenty for pair in seven)
    assert twenty != every[:20]
    valid, part = (Dataset.open(path).splits["valid"] for path in (whole, tmp_path / "7"))
    assert part.references() == valid.references()
    assert Dataset.open(tmp_path / "7").fingerprint != Dataset.open(tmp_path / "20").fingerprint


def test_too_many(whole: Path, tmp_path: Path):
    with pytest.raises(UserError, match="pairs must be between 1 and 60"):
        write_subset(whole, tmp_path / "none", 61)
    assert not (tmp_path / "none").exists()
