"""Trainings that start from a model: its weights are the first, or it is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from disco_mt.cli import main
from disco_mt.nn.directory import read_config, weights
from disco_mt.suites.package import package
from disco_mt.suites.suite import load_suite
from disco_mt.suites.workspace import Workspace
from disco_mt.systems.build import load_weights
from disco_mt.training.rundir import read_log
from tiny_suite import write_corpus, write_suite

MORE = """
[systems.more]
like = "disco"
data = "made-up"
start = "disco"
training = { max_steps = 2, learning_rate = 1e-9, warmup_steps = 1, dev_every = 1 }

[systems.pupil]
like = "more"
data = "distilled"
start = "teacher"
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A suite whose last system starts from another, with hardly any learning: it stays what it was."""
    folder = tmp_path_factory.mktemp("start")
    path = write_suite(folder, "[distill]", "[distill.more.made-up]\nsplice = 1.0\n[distill]")
    path.write_text(path.read_text() + MORE)
    workspace = Workspace(load_suite(path), folder / "runs", write_corpus(folder / "corpora"))
    workspace.run("average:disco", quiet=True)
    workspace.run("average:more", quiet=True, processes=2)  # torchrun must hand on --start
    workspace.run("average:pupil", quiet=True)
    return workspace


def test_a_training_starts_from_the_weights_of_a_model(made: Workspace) -> None:
    before, after = (weights(load_weights(read_config(made.model(name)))) for name in ("disco", "more"))
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)
    started = read_config(made.model("more")).extra["recipe"]["start"]
    assert started["model"] == str(made.model("disco"))
    assert len(started["weights_sha256"]) == 64


def test_a_student_begins_as_its_teacher(made: Workspace) -> None:
    """All but the length predictor, which an autoregressive model has not: that one is random, not 0."""
    teacher, pupil = (weights(load_weights(read_config(made.model(name)))) for name in ("teacher", "pupil"))
    assert all(torch.allclose(teacher[name], pupil[name], atol=1e-6) for name in teacher)
    own = pupil.keys() - teacher.keys()
    assert own
    assert all(name.startswith("encoder.length.") and pupil[name].std() > 0 for name in own)


def test_its_stage_needs_the_model_and_its_own_data(made: Workspace) -> None:
    assert made.stage("train:more").needs == ("distill:made-up", "average:disco")
    assert made.dataset("made-up") != made.dataset("distilled")
    assert read_log(made.run_directory("more"))[-1]["step"] == 2


def test_a_packaged_model_names_its_start_and_its_sources(made: Workspace, tmp_path: Path) -> None:
    package(made, "more", tmp_path / "en-de")
    assert read_config(tmp_path / "en-de").extra["recipe"]["start"]["model"] == "disco"
    card = (tmp_path / "en-de" / "README.md").read_text(encoding="utf-8")
    assert "of the corpus, and also of made-up sentences." in card


def test_the_plain_distillation_does_not_depend_on_splicing(made: Workspace, tmp_path: Path) -> None:
    plain = Workspace(load_suite(write_suite(tmp_path)), made.folder.parent, made._data)
    assert plain.stage("distill").directory == made.stage("distill").directory


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model.width", "32"], "model.width is 16 there, 32 here"),
        (["--model.norm", "pre"], "model.norm is 'post' there, 'pre' here"),
    ],
)
def test_a_model_of_another_shape_is_refused(
    made: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    recipe = str(made.stage("train:disco").directory / "recipe.toml")
    data, start = str(made.dataset("distilled")), str(made.model("disco"))
    command = ["train", recipe, "--data", data, "--out", str(tmp_path / "run"), "--start", start]
    assert main([*command, *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_model_of_another_vocabulary_is_refused(
    made: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write_corpus(tmp_path / "others", train=30) / "tatoeba-en-de"
    files = ["--source", str(text / "train.en"), "--target", str(text / "train.de")]
    languages = ["--source-language", "en", "--target-language", "de"]
    out = ["--vocabulary-size", "290", "--out", str(tmp_path / "data")]
    assert main(["prepare", *files, *languages, *out]) == 0
    recipe = str(made.stage("train:disco").directory / "recipe.toml")
    start = ["--start", str(made.model("disco")), "--out", str(tmp_path / "run")]
    assert main(["train", recipe, "--data", str(tmp_path / "data"), *start]) == 2
    assert "the model to start from" in (error := capsys.readouterr().err)
    assert "disco prepare --tokenizers" in error
