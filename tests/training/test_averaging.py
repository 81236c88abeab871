"""The mean of the best models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_run import OPTIONS, go

from disco_mt.core.errors import UserError
from disco_mt.nn.directory import read_config
from disco_mt.systems.build import load_weights
from disco_mt.text.pair import TextPair
from disco_mt.training.averaging import average
from disco_mt.training.dev import DevScore


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scores 1, 2, 3, 2 after steps 1, 2, 3, 4."""
    rest = iter([1.0, 2.0, 3.0, 2.0])
    path = tmp_path_factory.mktemp("averaging") / "run"
    options = replace(OPTIONS, dev_every=1, max_steps=4)
    go(path, options, scorer=lambda model: DevScore(next(rest), 1.0, 0.0))
    return path


def test_the_mean_of_the_best(run: Path, tmp_path: Path) -> None:
    chosen = average(run, tmp_path / "mean", number=3)
    assert [(entry.step, entry.bleu) for entry in chosen] == [(3, 3.0), (2, 2.0), (4, 2.0)]
    directory = read_config(tmp_path / "mean")
    mean = load_file(tmp_path / "mean" / "model.safetensors")
    parts = [load_file(entry.path / "model.safetensors") for entry in chosen]
    for name, tensor in mean.items():
        assert torch.equal(tensor, torch.stack([part[name].double() for part in parts]).mean(0).float())
    load_weights(directory)
    assert TextPair.load(directory.path, directory.text).target.language == "de"
    assert directory.extra["averaged"][0] == {"step": 3, "bleu": 3.0}
    assert directory.extra["recipe"] == {"objective": "disco"}
    assert "| 3 | 3.00 |" in (directory.path / "README.md").read_text()


def test_all_if_there_are_fewer(run: Path, tmp_path: Path) -> None:
    assert len(average(run, tmp_path / "mean", number=9)) == 4


def test_mistakes(run: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(UserError, match="already exists"):
        average(run, tmp_path / "taken")
    with pytest.raises(UserError, match="not a training run"):
        average(tmp_path / "taken", tmp_path / "mean")
    (tmp_path / "taken" / "run.json").write_text("{}")
    with pytest.raises(UserError, match="no models to average"):
        average(tmp_path / "taken", tmp_path / "mean")
    with pytest.raises(UserError, match="number must be at least 1"):
        average(run, tmp_path / "mean", number=0)
    assert not (tmp_path / "mean").exists()


def test_a_damaged_model_is_named(run: Path, tmp_path: Path) -> None:
    path = run / "best" / "step-00000004" / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    with pytest.raises(UserError, match=r"step-00000004.*damaged"):
        average(run, tmp_path / "mean")
    path.write_bytes(whole)
    assert not (tmp_path / "mean").exists()
