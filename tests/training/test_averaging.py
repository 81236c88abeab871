"""The mean of the best models."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_run import OPTIONS, go

from disco_mt.core.errors import UserError
from disco_mt.evaluation.dev import DevScore
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.directory import read_config
from disco_mt.systems.build import load_weights
from disco_mt.text.pair import TextPair
from disco_mt.training.averaging import average, best_number, mean_model, score_means, scored_means


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


def test_more_than_were_kept_are_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has kept 4 checkpoints, so 9 cannot be averaged; average fewer"):
        average(run, tmp_path / "mean", number=9)
    assert not (tmp_path / "mean").exists()


def test_the_number_whose_mean_is_best(run: Path) -> None:
    """Of 1, 2, 3 and 5 models those that were kept are tried; each score is that of the mean itself."""
    scored: list[torch.Tensor] = []
    wanted = iter([4.0, 6.0, 5.0])

    def score(model: TranslationModel) -> DevScore:
        assert not model.training
        scored.append(model.output.weight.detach().clone())
        return DevScore(next(wanted), 1.0, 0.0)

    scores = list(scored_means(run, score))
    assert scores == [(1, 4.0), (2, 6.0), (3, 5.0)]
    assert best_number(scores) == 2
    assert torch.equal(scored[1], mean_model(run, 2).output.weight)
    assert not torch.equal(scored[0], scored[1])
    assert best_number([(1, 3.0), (2, 3.0)]) == 1


def test_mistakes(run: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(UserError, match="already exists"):
        average(run, tmp_path / "taken", 1)
    with pytest.raises(UserError, match="not a training run"):
        average(tmp_path / "taken", tmp_path / "mean", 1)
    (tmp_path / "taken" / "run.json").write_text("{}")
    with pytest.raises(UserError, match="no models to average"):
        average(tmp_path / "taken", tmp_path / "mean", 1)
    with pytest.raises(UserError, match="number must be at least 1"):
        average(run, tmp_path / "mean", number=0)
    assert not (tmp_path / "mean").exists()


def test_a_damaged_model_is_named(run: Path, tmp_path: Path) -> None:
    path = run / "best" / "step-00000004" / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    with pytest.raises(UserError, match=r"step-00000004.*damaged"):
        average(run, tmp_path / "mean", 3)
    path.write_bytes(whole)
    assert not (tmp_path / "mean").exists()


def test_without_the_data_a_number_must_be_given(run: Path, tmp_path: Path) -> None:
    """Runs of older versions do not say where their data are, and data can move."""
    with pytest.raises(UserError, match=r"is missing in it; give the --out of disco train"):
        score_means(tmp_path)
    old, gone = shutil.copytree(run, tmp_path / "old"), tmp_path / "gone"
    for content, reason in (
        ({"recipe": {}}, f"{old} does not say where its data are"),
        ({"recipe": {}, "data": str(gone)}, f"{gone} does not exist any more"),
    ):
        (old / "run.json").write_text(json.dumps(content))
        with pytest.raises(UserError, match=f"{reason}; give the dataset with --data, or a number"):
            score_means(old)
