"""Suites: what a file means, and which mistakes in it are named."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from disco_mt.core.errors import UserError
from disco_mt.suites.stages import command
from disco_mt.suites.suite import load_suite, shipped_suites
from disco_mt.suites.workspace import Workspace
from disco_mt.training.recipe import load_recipe
from tiny_suite import write_suite


def test_shared_tables_are_merged_into_every_system(tmp_path: Path) -> None:
    suite = load_suite(write_suite(tmp_path))
    assert suite.name == "animals"
    assert list(suite.systems) == ["teacher", "disco", "mixed"]
    teacher, disco = suite.systems["teacher"], suite.systems["disco"]
    assert (teacher.data, disco.data) == ("raw", "distilled")
    assert teacher.recipe.model.kind == "autoregressive"
    assert disco.recipe.model.kind == "disco"
    assert teacher.recipe.model.encoder == disco.recipe.model.encoder
    assert teacher.recipe.model.width == 16
    assert (teacher.recipe.model.dropout, disco.recipe.model.dropout) == (0.1, 0.0)


def test_like_takes_over_another_system(tmp_path: Path) -> None:
    systems = load_suite(write_suite(tmp_path)).systems
    assert systems["mixed"].data == "distilled"
    assert systems["mixed"].recipe.model == systems["disco"].recipe.model
    assert systems["mixed"].recipe.objective.name == "mixture"
    assert systems["disco"].recipe.objective.name == ""


def test_the_test_set_is_decoded_as_the_dev_set_unless_said_otherwise(tmp_path: Path) -> None:
    systems = load_suite(write_suite(tmp_path)).systems
    assert systems["teacher"].recipe.decoding.strategy == "greedy"
    assert systems["teacher"].evaluate.strategy == "beam"
    assert systems["teacher"].evaluate.iterations == 2
    assert systems["disco"].evaluate == systems["disco"].recipe.decoding


@pytest.mark.parametrize("name", shipped_suites())
def test_every_shipped_suite_is_read(name: str) -> None:
    suite = load_suite(name)
    assert suite.about
    assert suite.distill is not None
    learnt = {"raw", "spliced"} if name == "multi30k-spliced.en-de" else {"raw", "distilled"}
    assert {system.data for system in suite.systems.values()} >= learnt


@pytest.mark.parametrize("name", shipped_suites())
def test_a_recipe_is_the_same_after_writing_it_as_toml(name: str, tmp_path: Path) -> None:
    for system in load_suite(name).systems.values():
        path = tmp_path / "recipe.toml"
        path.write_text(system.recipe.as_toml(), encoding="utf-8")
        assert load_recipe(str(path)) == system.recipe


def test_the_systems_of_multi30k() -> None:
    systems = load_suite("multi30k.en-de").systems
    assert len(systems) == 11
    assert systems["at-raw"].recipe.model.dropout == 0.2
    assert all(each.recipe.model.dropout == 0.1 for each in systems.values() if each.data != "raw")
    assert {name for name, each in systems.items() if each.recipe.model.contextless} == {
        "at-contextless",
        "at-contextless-distilled",
    }


def test_the_students_of_the_short_suite_are_trained_alike() -> None:
    """What tells raw from distilled and CMLM from DisCo must be that alone (and the usual dropout)."""
    systems = load_suite("multi30k-short.en-de").systems
    compared = [systems[f"{kind}-{data}"] for kind in ("cmlm", "disco") for data in ("raw", "distilled")]
    compared.append(systems["disco-easy-first"])
    assert len({each.recipe.training for each in compared}) == 1
    assert {each.start for each in compared} == {"at-raw"}
    assert {each.recipe.training.optimizer for each in systems.values()} == {"muon"}


def test_the_student_of_the_spliced_suite_begins_as_its_teacher() -> None:
    suite = load_suite("multi30k-spliced.en-de")
    assert list(suite.systems) == ["at-raw", "disco-mixture"]
    assert suite.systems["disco-mixture"].start == "at-raw"
    assert suite.distill is not None
    assert suite.distill.more[suite.systems["disco-mixture"].data].splice == 4
    short = load_suite("multi30k-short.en-de").systems["at-raw"].recipe  # the same teacher, in halves
    halves = replace(short, training=replace(short.training, max_tokens=1024))
    assert suite.systems["at-raw"].recipe == halves


MISTAKES = {
    "an unknown key at the top": ("average = 2", "averages = 2", "unknown key 'averages'; known keys: about"),
    "in data": ('source = "tatoeba"', 'source = "tatoeba"\nsize = 3', "data: unknown key 'size'"),
    "in prepare": ("vocabulary_size", "vocabulary_sise", "prepare: unknown key 'vocabulary_sise'"),
    "in a system": ('data = "distilled"', "x = 1", "systems.disco: unknown key 'x'"),
    "in its model": ("model.dropout", "model.drop", "systems.disco: model: unknown key 'drop'"),
    "unknown teacher": ('teacher = "teacher"', 'teacher = "me"', "'me' is not a system; there are: teacher,"),
    "taught by a student": ('teacher = "teacher"', 'teacher = "disco"', 'must have data = "raw"'),
    "no teacher": ('teacher = "teacher"', "", "distill.teacher is missing"),
    "unknown data": (
        'data = "distilled"',
        'data = "wet"',
        "data must be one of raw, distilled, got 'wet'; others need a table [distill.more.wet]",
    ),
    "unknown corpus": ('"tatoeba"', '"babel"', "data: source must be one of multi30k, tatoeba, phrasebook"),
    "no name": ('data = "distilled"', "data = 7", "systems.disco: data must be a name such as raw"),
    "extended by nothing": ("[distill]", "[distill.more.x]\n[distill]", "distill.more.x has no more sources"),
    "the name of the plain data": (
        "[distill]",
        "[distill.more.raw]\nsplice = 1.0\n[distill]",
        "distill.more.raw: choose another name",
    ),
    "no name for a folder": (
        "[distill]",
        '[distill.more."a/b"]\nsplice = 1.0\n[distill]',
        "distill.more.a/b: choose another name",
    ),
    "unknown kind of sources": (
        "[distill]",
        "[distill.more.x]\nsplit = 1.0\n[distill]",
        "distill.more.x: unknown key 'split'",
    ),
    "too few spliced": (
        "[distill]",
        "[distill.more.x]\nsplice = -1.0\n[distill]",
        "distill.more.x.splice must be at least 0, got -1.0",
    ),
    "another source language": (
        "[distill]",
        '[distill.more.x]\nalso_from = ["fr-de"]\n[distill]',
        "more.x.also_from must be other pairs of the same source language, such as en-fr; got 'fr-de'",
    ),
    "the same pair": (
        "[distill]",
        '[distill.more.x]\nalso_from = ["en-de"]\n[distill]',
        "other pairs of the same source",
    ),
    "no pair": (
        "[distill]",
        '[distill.more.x]\nalso_from = ["en"]\n[distill]',
        "other pairs of the same source",
    ),
    "no list of pairs": (
        "[distill]",
        '[distill.more.x]\nalso_from = "en-fr"\n[distill]',
        "distill.more.x: also_from must be a list, got 'en-fr'",
    ),
    "a start that comes later": (
        "[systems.teacher]",
        '[systems.teacher]\nstart = "disco"',
        "systems.teacher: start must name a system that is trained before it (), got 'disco'",
    ),
    "like nobody": (
        'like = "disco"',
        'like = "it"',
        "systems.mixed: like must name another system, got 'it'",
    ),
    "like itself": ('like = "disco"', 'like = "mixed"', "like must name another system"),
    "one language": (
        '"tatoeba"',
        '"tatoeba"\nlanguages = ["en"]',
        'must be two codes such as ["en", "de"]',
    ),
    "misfit strategy": ('"beam"', '"easy-first"', "does not fit a model of kind autoregressive"),
    "misfit objective": ('"mixture"', '"cmlm"', "systems.mixed: objective.name 'cmlm' does not fit"),
    "a size of the data": ("width = 16", "source_vocabulary = 9", "comes from the dataset; remove it"),
    "no average": ("average = 2", "average = -1", "average must be at least 0, got -1"),
    "an unknown choice": ("[decoding]", "[choose]\nwidth = [1]\n[decoding]", "choose: unknown key 'width'"),
    "a choice of one": (
        "[decoding]",
        "[choose]\ndropout = 0.1\n[decoding]",
        "systems.teacher: choose: dropout must be a list, got 0.1",
    ),
    "a choice twice": (
        "[decoding]",
        "[choose]\ndropout = [0.1, 0.1]\n[decoding]",
        "must be different values",
    ),
    "a choice out of range": (
        "[decoding]",
        "[choose]\ndropout = [0.1, 1.5]\n[decoding]",
        "systems.teacher: model.dropout must be at least 0 and below 1, got 1.5",
    ),
    "the mark of a choice": ("[systems.mixed]", "[systems.'m@1']", "a name must not have @ in it"),
    "parts of another corpus": (
        "[prepare]",
        "[data.parts]\nfolder = 'f'\ntest = 'a'\nvalid = 'b'\n[prepare]",
        "data.source mtdata and the table [data.parts] go together",
    ),
    "no parts": ('"tatoeba"', '"mtdata"', "data.source mtdata and the table [data.parts] go together"),
    "parts that are no list": (
        '"tatoeba"',
        '"mtdata"\nparts.train = "A-b-1-eng-deu"',
        "data: parts: train must be a list, got 'A-b-1-eng-deu'",
    ),
    "an unknown part": ('"tatoeba"', '"mtdata"\nparts.dev = "a"', "data: parts: unknown key 'dev'"),
    "no test set": (
        '"tatoeba"',
        '"mtdata"\nparts = { folder = "f", train = ["a"], valid = "b" }',
        "data.parts.test is missing",
    ),
    "no dev set": (
        '"tatoeba"',
        '"mtdata"\nparts = { folder = "f", train = ["a"], test = "b" }',
        "data.parts needs either valid or valid_one_in",
    ),
    "not TOML": ("average = 2", "average: 2", "is not valid TOML"),
    "a number for a table": ("[systems.teacher]", "[x]", "unknown key 'x'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named_with_the_file(tmp_path: Path, mistake: str) -> None:
    old, new, message = MISTAKES[mistake]
    path = write_suite(tmp_path, old, new)
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        load_suite(path)
    assert str(path) in str(raised.value)


def test_a_suite_like_another(tmp_path: Path) -> None:
    write_suite(tmp_path)
    heir = tmp_path / "heir.toml"
    heir.write_text('like = "animals.toml"\n[model]\nwidth = 32\n[systems.disco]\nmodel.dropout = 0.2\n')
    suite, under = load_suite(heir), load_suite(tmp_path / "animals.toml")
    assert suite.name == "heir"
    assert (suite.about, suite.distill, list(suite.systems)) == (
        "animals",
        under.distill,
        list(under.systems),
    )
    assert {system.recipe.model.width for system in suite.systems.values()} == {32}
    assert [suite.systems[name].recipe.model.dropout for name in suite.systems] == [0.1, 0.2, 0.2]
    shipped = tmp_path / "shipped.toml"
    shipped.write_text('like = "multi30k.en-de"\n[training]\nmax_steps = 7\n')
    assert load_suite(shipped).systems["at-raw"].recipe.training.max_steps == 7


@pytest.mark.parametrize("like", ["nobody", "heir.toml"])
def test_a_suite_like_none(tmp_path: Path, like: str) -> None:
    (tmp_path / "heir.toml").write_text(f'like = "{like}"\n')
    with pytest.raises(UserError, match=f"heir.toml: like must name another suite, got '{like}'"):
        load_suite(tmp_path / "heir.toml")


def test_a_choice_makes_a_training_of_each_value(tmp_path: Path) -> None:
    path = write_suite(tmp_path, "[decoding]", "[choose]\ndropout = [0, 0.3]\n[decoding]")
    path.write_text(path.read_text() + "choose.dropout = []\n")  # the last system has no choice
    suite = load_suite(path)
    assert {name: [*suite.trainings(name)] for name in suite.systems} == {
        "teacher": ["teacher@0", "teacher@0.3"],
        "disco": ["disco@0", "disco@0.3"],
        "mixed": ["mixed"],
    }
    assert suite.training("disco@0.3").model.dropout == 0.3
    assert suite.training("mixed") == suite.systems["mixed"].recipe
    with pytest.raises(UserError, match=r"no training 'disco@0.7'; there are: disco, disco@0, disco@0.3"):
        suite.training("disco@0.7")


def test_distilled_data_need_a_distillation(tmp_path: Path) -> None:
    path = write_suite(tmp_path, '[distill]\nteacher = "teacher"\nbeam = 2\n')
    with pytest.raises(UserError, match=r"systems.disco wants distilled data, but there is no \[distill\]"):
        load_suite(path)


def test_an_unknown_suite_is_refused_with_those_that_ship() -> None:
    with pytest.raises(UserError, match=r"no suite 'wmt': .* multi30k.en-de, phrasebook, tatoeba.en-de"):
        load_suite("wmt")


def test_a_suite_like_another_without_some_systems(tmp_path: Path) -> None:
    (tmp_path / "heir.toml").write_text('like = "multi30k.en-de"\nwithout = ["disco-mixture", "cmlm-raw"]\n')
    with pytest.raises(
        UserError, match=r"systems\.cmlm-distilled: like must name another system, got 'cmlm-raw'"
    ):
        load_suite(tmp_path / "heir.toml")
    (tmp_path / "heir.toml").write_text('like = "multi30k.en-de"\nwithout = ["disco-mixture"]\n')
    whole, heir = load_suite("multi30k.en-de"), load_suite(tmp_path / "heir.toml")
    assert [*whole.systems] == [*heir.systems, "disco-mixture"]


@pytest.mark.parametrize("without", ['"disco-mixture"', '["disco-mixed"]', "[1]"])
def test_only_systems_that_are_there_can_be_left_out(tmp_path: Path, without: str) -> None:
    (tmp_path / "heir.toml").write_text(f'like = "multi30k.en-de"\nwithout = {without}\n')
    with pytest.raises(
        UserError, match=r"heir.toml: without must list systems of the other suite \(at-raw, "
    ):
        load_suite(tmp_path / "heir.toml")


def test_a_teacher_distils_with_the_length_penalty_of_its_scores(tmp_path: Path) -> None:
    plain = Workspace(load_suite(write_suite(tmp_path)), tmp_path / "runs").stage("distill")
    assert "length_penalty" not in plain.inputs["distill"]
    scored = 'evaluate.strategy = "beam"'
    path = write_suite(tmp_path, scored, f"{scored}\nevaluate.length_penalty = 1.4")
    workspace = Workspace(load_suite(path), tmp_path / "runs")
    distill = workspace.stage("distill")
    assert distill.inputs["distill"]["length_penalty"] == 1.4
    stages = {stage.name: stage for stage in workspace.stages()}
    words = command(distill, stages, workspace.suite, threads=1)
    assert words[words.index("--length-penalty") + 1] == "1.4"
    explicit = write_suite(tmp_path, "beam = 2\n[model]", "beam = 2\nlength_penalty = 0.6\n[model]")
    asked = Workspace(load_suite(explicit), tmp_path / "runs").stage("distill")
    assert asked.inputs["distill"]["length_penalty"] == 0.6
