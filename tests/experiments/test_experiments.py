"""Every experiment from the command line, on a suite of random models."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from mini_suite import make_workspace

from disco_mt.cli import main
from disco_mt.core.errors import UserError
from disco_mt.experiments import EXPERIMENTS, load
from disco_mt.experiments.decode import Lab
from disco_mt.experiments.experiment import Options
from disco_mt.reporting import plots
from disco_mt.suites import roles
from disco_mt.suites.stages import DONE
from disco_mt.suites.suite import load_suite, shipped_suites
from disco_mt.suites.workspace import Workspace

KINDS = ("autoregressive", "cmlm", "disco")

# name -> (rows of the first table, pictures, a claim that must be judged)
EXPECTED = {
    "curves": (14, [f"curves-{kind}.{form}" for kind in KINDS for form in ("svg", "png")], ""),
    "main": (12, [], "at least comparable to the CMLM with 10 steps"),
    "speed": (13, ["speed.svg", "speed.png"], "faster than AT, b=5"),
    "batch-size": (2, ["batch-size.svg", "batch-size.png"], "more robust to smaller batches"),
    "example": (5, ["example.svg"], "resolves repetition"),
    "length-beam": (3, ["length-beam.svg", "length-beam.png"], "Easy-First improves more than CMLM"),
    "steps-by-length": (None, ["steps-by-length.svg", "steps-by-length.png"], "require more iterations"),
    "distillation": (7, [], "DisCo gains more than the CMLM, mask-predict T=4"),
    "contextless": (6, [], "retains performance, distilled data"),
    "easy-first-training": (2, [], "does not ameliorate"),
    "strategies": (5, [], "better than All-But-Itself"),
    "data-size": (2, ["data-size.svg", "data-size.png"], "as data grows, 12 to 200 pairs"),
    "reranking": (10, [], "Self-reranking improves easy-first"),
    "pins": (6, [], "3 pinned: all are kept"),
}
SIZES = ("batch-256", "part-16")
SHORT = ("--samples", "20", "--sentences", "2", "--repeats", "2", "--quiet")


def experiment(workspace: Workspace, name: str, *arguments: object) -> int:
    folder = workspace.folder.parent
    given = ["experiment", name, "--suite", folder.parent / "mini.toml", "--runs", folder, *arguments]
    return main([str(argument) for argument in given])


def tables(markdown: str) -> list[list[str]]:
    """Rows of each table, without header and rule."""
    blocks = re.findall(r"(?:^\|.*\n)+", markdown, flags=re.M)
    return [block.splitlines()[2:] for block in blocks]


def test_all_are_tested():
    assert list(EXPECTED) == list(EXPERIMENTS)


@pytest.mark.parametrize("name", shipped_suites())
def test_suites_have_the_systems_of_the_reports_that_they_end_with(name: str):
    suite = load_suite(name)
    assert all({*load(report).needs(suite)} <= {*suite.systems} for report in suite.reports)


@pytest.mark.parametrize("corpora", [("multi30k",), ("mtdata",)])
def test_every_table_and_figure_is_in_a_suite_at_desk_and_at_paper_scale(corpora: tuple[str, ...]):
    suites = [suite for suite in map(load_suite, shipped_suites()) if suite.data.source in corpora]
    ours = {"curves", "pins"} if corpora == ("mtdata",) else set()  # not in the paper
    assert {*EXPERIMENTS} - ours <= {report for suite in suites for report in suite.reports}


def test_the_desk_suite_has_no_system_that_no_report_needs():
    suite = load_suite("multi30k.en-de")
    assert {system for name in suite.reports for system in load(name).needs(suite)} == set(suite.systems)


@pytest.mark.parametrize("name", EXPECTED)
def test_report(workspace: Workspace, tmp_path: Path, name: str):
    rows, pictures, claim = EXPECTED[name]
    assert experiment(workspace, name, "--out", tmp_path / "out", *SHORT) == 0
    text = (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    found = tables(text)
    assert rows is None or len(found[0]) == rows
    assert f"disco experiment {name} --suite" in text
    if claim:
        verdicts = [row.split(" | ") for row in found[-1]]
        assert any(claim in row[0] for row in verdicts)
        assert {row[1].strip() for row in verdicts} <= {"yes", "no", "undecided"}
    made = sorted(path.name for path in (tmp_path / "out").iterdir())
    measured = ["measurements.json"] if name in ("speed", "reranking") else []
    assert made == sorted(["report.md", *pictures, *measured])


def test_a_second_run_gives_the_same_report(workspace: Workspace, tmp_path: Path):
    for out in ("one", "two"):
        experiment(workspace, "length-beam", "--out", tmp_path / out, *SHORT)
    for name in ("length-beam.svg", "length-beam.png"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    one, two = ((tmp_path / out / "report.md").read_text("utf-8") for out in ("one", "two"))
    assert one.replace(str(tmp_path / "one"), "") == two.replace(str(tmp_path / "two"), "")


def test_the_paper_stands_beside_ours(workspace: Workspace, tmp_path: Path, capsys):
    experiment(workspace, "main", "--out", tmp_path / "out", "--samples", "20")
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if line.startswith("| DisCo + Easy-First"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[-2:] == ["4.82", "27.34"]
    assert cells[5] == "2 min"  # 140 s of training without 20 s of scoring
    assert "is the “original” decoder of Table 5" in printed  # the paper's inconsistencies as they are


def test_missing_models_are_named_with_the_commands_that_make_them(tmp_path: Path, capsys):
    mini = make_workspace(tmp_path)
    for system in ("cmlm", "disco"):
        (mini.stage(f"average:{system}").directory / DONE).unlink()
    assert experiment(mini, "main", "--out", tmp_path / "out") == 2
    error = capsys.readouterr().err
    assert "disco suite run mini --stage average:cmlm\n" in error
    assert "disco suite run mini --stage average:disco\n" in error
    assert "average:at" not in error
    assert not (tmp_path / "out").exists()


def test_a_suite_without_such_a_system_is_told_so(workspace: Workspace, tmp_path: Path):
    text = (workspace.folder.parent.parent / "mini.toml").read_text()
    (tmp_path / "less.toml").write_text(text[: text.index("[systems.disco-mixture]")])
    suite = load_suite(tmp_path / "less.toml")
    with pytest.raises(
        UserError, match="less has no disco model with objective mixture on distilled or extended data"
    ):
        load("reranking").needs(suite)
    with pytest.raises(
        UserError, match=r"does not train .* with the same several batch sizes; .*multi30k-sizes"
    ):
        load("batch-size").needs(load_suite("multi30k.en-de"))
    with pytest.raises(UserError, match=r"does not train .* with the same several parts of the data"):
        load("data-size").needs(load_suite("multi30k.en-de"))


def test_main_without_cmlm_and_distilled_at(workspace: Workspace, tmp_path: Path):
    """A suite of a teacher and a DisCo has fewer rows and fewer claims."""
    assert load("main").needs(load_suite("libreoffice-help.en-de")) == ["at-raw", "disco-distilled"]
    runs = workspace.folder.parent
    text = (runs.parent / "mini.toml").read_text("utf-8")
    without = ["at", "at-contextless", "cmlm", "cmlm-raw", "disco-raw", "disco-easy-first", "disco-mixture"]
    without += ["disco-spliced", *(f"{kind}.{size}" for kind in ("cmlm", "disco") for size in SIZES)]
    (tmp_path / "whole.toml").write_text(text, encoding="utf-8")
    (tmp_path / "mini.toml").write_text(f'like = "whole.toml"\nwithout = {without}\n', encoding="utf-8")
    given = ("--suite", tmp_path / "mini.toml", "--runs", runs, "--out", tmp_path / "out", *SHORT)
    assert main(["experiment", "main", *map(str, given)]) == 0
    found = tables((tmp_path / "out" / "report.md").read_text("utf-8"))
    assert len(found[0]) == 6
    assert [row.split(" | ")[0].strip("| ")[:22] for row in found[-1]] == [
        "DisCo mask-predict T=4",
        "DisCo mask-predict T=1",
        "Ours: a length penalty",
        "Ours: DisCo + Easy-Fir",
        "Ours: DisCo + Easy-Fir",
    ]


def test_reranking_without_a_plain_disco(workspace: Workspace, tmp_path: Path):
    """A suite of a teacher and a mixture that began as it has a row and a claim less."""
    assert load("reranking").needs(load_suite("multi30k-spliced.en-de")) == ["disco-mixture", "at-raw"]
    assert "disco-spliced" in load("reranking").needs(load_suite("multi30k.en-de"))
    runs = workspace.folder.parent
    text = (runs.parent / "mini.toml").read_text("utf-8")
    mixture = '[systems.disco-mixture]\ndata = "distilled"\nobjective.name = "mixture"\n'
    (tmp_path / "mini.toml").write_text(text[: text.index("[systems.at]")] + mixture, encoding="utf-8")
    given = ("--suite", tmp_path / "mini.toml", "--runs", runs, "--out", tmp_path / "out", *SHORT)
    assert main(["experiment", "reranking", *map(str, given)]) == 0
    rows, *_, verdicts = tables((tmp_path / "out" / "report.md").read_text("utf-8"))
    assert len(rows) == 9
    assert not any("DisCo: easy-first" in row for row in rows)
    assert not any("plain DisCo" in row for row in verdicts)


def test_pins_without_a_trained_cmlm(tmp_path: Path):
    mini = make_workspace(tmp_path)
    (mini.stage("average:cmlm").directory / DONE).unlink()
    assert experiment(mini, "pins", "--out", tmp_path / "out", *SHORT) == 0
    assert len(tables((tmp_path / "out" / "report.md").read_text("utf-8"))[0]) == 4


def test_compared_are_models_of_one_size():
    suite = load_suite("wmt14.en-de")
    assert roles.system_for(suite, roles.AT_RAW) == "at-raw"
    assert roles.teacher_of(suite) == "teacher"
    assert "teacher" in load("main").needs(suite)
    assert "teacher" in load("reranking").needs(suite)
    assert "teacher" not in load("distillation").needs(suite)
    assert "at-distilled" in load("distillation").needs(suite)
    without = replace(suite, systems={k: v for k, v in suite.systems.items() if k != "at-distilled"})
    assert "at-raw" not in load("distillation").needs(without)


def test_distillation_without_a_distilled_at(workspace: Workspace):
    suite = workspace.suite
    smaller = replace(suite, systems={k: v for k, v in suite.systems.items() if not roles.AT.fits(v)})
    report = load("distillation").run(
        Lab(Workspace(smaller, workspace.folder.parent), 20), Options(samples=20)
    )
    assert [row[0].split()[0] for row in report.tables[0].rows] == ["CMLM", "CMLM", "DisCo", "DisCo", "DisCo"]
    assert not any("AT" in verdict.claim for verdict in report.verdicts)


def test_a_suite_of_the_paper_names_what_is_missing(capsys, monkeypatch, tmp_path: Path):
    monkeypatch.setenv("DISCO_RUNS", str(tmp_path))
    assert main(["experiment", "distillation", "--suite", "wmt14.en-de"]) == 2
    error = capsys.readouterr().err
    assert "disco suite run wmt14.en-de --stage average:cmlm-raw\n" in error
    assert "disco suite run wmt14.en-de --stage average:at-distilled\n" in error


def test_the_papers_corpora_add_the_papers_bleu(lab: Lab, monkeypatch):
    header = load("main").run(lab, Options(samples=20)).tables[0].header
    monkeypatch.setattr(Lab, "papers_corpus", True)
    added = load("main").run(lab, Options(samples=20)).tables[0].header
    assert [name for name in added if name not in header] == ["tokenised BLEU"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["main", "--recipe", "mini.toml"], "--recipe is now --suite"),
        (["main", "--scale=paper"], "name the suite"),
        (["batch-size", "--steps", "300"], "multi30k-sizes.en-de"),
        (["two-readers"], "two-readers is now reranking"),
    ],
)
def test_options_of_earlier_versions_are_refused_with_the_new_ones(
    arguments: list[str], message: str, capsys
):
    assert main(["experiment", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_models_of_a_few_hundred_updates_give_no_verdicts(tmp_path: Path):
    mini = make_workspace(tmp_path)
    log = mini.run_directory("disco") / "log.jsonl"
    log.write_text(log.read_text().replace("4000", "300"))
    assert experiment(mini, "strategies", "--out", tmp_path / "out", *SHORT) == 0
    text = (tmp_path / "out" / "report.md").read_text("utf-8")
    assert "Does it hold here?" not in text
    assert "No verdicts: models of fewer than 1,000 updates decide nothing (disco 300)." in text


def test_repetition_is_resolved_only_if_it_disappears(lab: Lab, monkeypatch):
    """Half of the repeated words are not enough."""
    rates = {"first": 8.0, "mask-predict": 0.0, "easy-first": 4.0, "reference": 0.0}

    def decoded(decodings, split):
        return {
            label: replace(lab.decode(each, split), texts=(label,) * 9) for label, each in decodings.items()
        }

    def rate(texts, language):
        return rates.get(texts[0], 8.0)

    monkeypatch.setattr(lab, "decode_all", decoded)
    monkeypatch.setattr(lab, "references", lambda split: [["reference"]] * 9)
    monkeypatch.setattr("disco_mt.experiments.example.repetition_rate", rate)
    verdicts = load("example").run(lab, Options(samples=20)).verdicts
    assert [verdict.answer for verdict in verdicts] == ["yes", "yes", "yes", "no"]


def test_figures_without_matplotlib(workspace: Workspace, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    assert experiment(workspace, "length-beam", "--out", tmp_path / "out") == 2
    assert "pip install 'disco-mt[plots]'" in capsys.readouterr().err
    assert experiment(workspace, "strategies", "--out", tmp_path / "out", *SHORT) == 0  # has no figure


def test_unknown_experiment_and_list(capsys):
    assert main(["experiment", "mian"]) == 2
    assert "there is no experiment 'mian'; there are: curves, main, speed" in capsys.readouterr().err
    assert main(["experiment"]) == 0
    listed = capsys.readouterr().out
    assert all(f"disco experiment {name} " in listed for name in EXPERIMENTS)


def test_example_of_a_chosen_sentence(lab: Lab):
    report = load("example").run(lab, Options(samples=20, sentence=3))
    assert lab.sources("valid")[2] in report.notes[0]
    with pytest.raises(UserError, match="--sentence must be at most 9"):
        load("example").run(lab, Options(samples=20, sentence=10))


def test_measured_times_are_kept(workspace: Workspace, tmp_path: Path):
    experiment(workspace, "reranking", "--out", tmp_path, *SHORT)
    seconds = json.loads((tmp_path / "measurements.json").read_text())["seconds"]
    assert {len(repeats) for repeats in seconds.values()} == {2}
    assert all(time > 0 for repeats in seconds.values() for repeat in repeats for time in repeat)
