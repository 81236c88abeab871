"""The stages of a suite: made once, made again only if something they depend on has changed, never by two."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from disco_mt.cli import main
from disco_mt.cli.suite import show_results
from disco_mt.core.errors import UserError
from disco_mt.core.files import write_text
from disco_mt.data.dataset import Dataset
from disco_mt.nn.directory import read_config
from disco_mt.suites.processes import Commands, locked
from disco_mt.suites.runner import Runner
from disco_mt.suites.stages import Stage
from disco_mt.suites.suite import DataOptions, load_suite
from disco_mt.suites.workspace import Workspace, runs_folder
from disco_mt.training.rundir import read_log
from tiny_suite import write_corpus, write_suite

ALL = [
    "prepare",
    *("train:teacher", "average:teacher", "evaluate:teacher"),
    "distill",
    *("train:disco", "average:disco", "evaluate:disco"),
    *("train:mixed", "average:mixed", "evaluate:mixed"),
]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DISCO_DATA", raising=False)
    monkeypatch.setenv("DISCO_RUNS", str(tmp_path / "default-runs"))


class Ran:
    """Stands in for the commands: notes them down, and makes what they would make."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.code: Callable[[str], int] = lambda name: 0
        self.most, self.running = 0, 0
        self.together: threading.Barrier | None = None

    def __call__(self, arguments: list[str], lock: int, show: Callable[[str], None], merge: bool) -> int:
        self.commands.append(arguments)
        self.running += 1
        self.most = max(self.most, self.running)
        if self.together is not None and arguments[0] == "train":
            self.together.wait(timeout=10)
        flag = "--hypotheses" if arguments[0] == "evaluate" else "--out"
        made = Path(arguments[arguments.index(flag) + 1])
        if not (code := self.code(self.name(arguments))):
            if arguments[0] == "experiment":
                write_text(made / "report.md", "# Report\n")
            made.write_text("") if flag == "--hypotheses" else made.mkdir(exist_ok=True)
            show(json.dumps({"bleu": 1.0, "chrf": 2.0, "steps": 3.0}))
        self.running -= 1
        return code

    @staticmethod
    def name(arguments: list[str]) -> str:
        """The stage of a command, by the directory that it writes to."""
        flag = "--hypotheses" if arguments[0] == "evaluate" else "--out"
        folder = Path(arguments[arguments.index(flag) + 1]).parents[1].name
        return folder if folder in ("prepare", "distill") else folder.replace("-", ":", 1)

    def since(self) -> list[str]:
        """The stages run since the last call."""
        names, self.commands = [self.name(each) for each in self.commands], []
        return names


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    stand_in = Ran()
    monkeypatch.setattr(Commands, "run", stand_in)
    return stand_in


def workspace(folder: Path, old: str = "", new: str = "", data: bool = True) -> Workspace:
    if data and not (folder / "corpora").exists():
        write_corpus(folder / "corpora")
    suite = load_suite(write_suite(folder, old, new))
    return Workspace(suite, folder / "runs", folder / "corpora" if data else None)


def test_stages_come_after_what_they_need(tmp_path: Path) -> None:
    stages = workspace(tmp_path).stages()
    assert [stage.name for stage in stages] == ALL
    seen: set[str] = set()
    for stage in stages:
        assert seen.issuperset(stage.needs)
        seen.add(stage.name)
    needs = {stage.name: stage.needs for stage in stages}
    assert needs["distill"] == ("prepare", "average:teacher")
    assert needs["train:disco"] == ("distill",)
    assert needs["train:teacher"] == ("prepare",)


def test_a_finished_stage_is_not_run_again(tmp_path: Path, ran: Ran) -> None:
    workspace(tmp_path).run(quiet=True)
    assert ran.since() == ALL
    workspace(tmp_path).run(quiet=True)
    assert ran.since() == []
    assert all(stage.done for stage in workspace(tmp_path).stages())


def test_a_stage_runs_what_it_needs_and_no_more(tmp_path: Path, ran: Ran) -> None:
    workspace(tmp_path).run("average:teacher", quiet=True)
    assert ran.since() == ["prepare", "train:teacher", "average:teacher"]
    workspace(tmp_path).run(["train"], quiet=True)
    assert ran.since() == ["distill", "train:disco", "train:mixed"]


STUDENTS = [name for name in ALL if name.endswith((":disco", ":mixed"))]
CHANGES = {
    "vocabulary_size = 300": ("vocabulary_size = 290", ALL),
    "width = 16": ("width = 32", ALL[1:]),
    'model.kind = "autoregressive"': ('model.kind = "autoregressive"\nmodel.dropout = 0.3', ALL[1:]),
    'teacher = "teacher"': ('teacher = "teacher"\nlength_penalty = 0.5', ["distill", *STUDENTS]),
    'objective.name = "mixture"': ('objective.name = "easy-first"', ALL[-3:]),
    'evaluate.strategy = "beam"': ('evaluate.strategy = "greedy"', ["evaluate:teacher"]),
    "average = 2": ("average = 1", ALL[2:]),
    "[distill]": ('[distill]\nrunner = "ray"', []),
    "dev_every = 2": ("dev_every = 2\nlog_every = 7\nsave_every = 9", []),
    'about = "animals"': ('about = "beasts"', []),
}


@pytest.mark.parametrize("old", CHANGES)
def test_a_change_reruns_only_what_depends_on_it(tmp_path: Path, ran: Ran, old: str) -> None:
    new, expected = CHANGES[old]
    workspace(tmp_path).run(quiet=True)
    ran.since()
    workspace(tmp_path, old, new).run(quiet=True)
    assert ran.since() == expected
    workspace(tmp_path).run(quiet=True)  # and the old results are still there
    assert ran.since() == []


def test_another_corpus_is_another_experiment_but_its_place_is_not(tmp_path: Path, ran: Ran) -> None:
    workspace(tmp_path).run("prepare", quiet=True)
    (tmp_path / "corpora").rename(tmp_path / "moved")
    suite = load_suite(tmp_path / "animals.toml")
    assert Workspace(suite, tmp_path / "runs", tmp_path / "moved").stage("prepare").done
    with (tmp_path / "moved" / "tatoeba-en-de" / "dev.de").open("a") as stream:
        stream.write("Aal\n")
    assert not Workspace(suite, tmp_path / "runs", tmp_path / "moved").stage("prepare").done


def test_results_can_be_used_without_the_data(tmp_path: Path, ran: Ran) -> None:
    made = workspace(tmp_path)
    made.run(quiet=True)
    without = workspace(tmp_path, data=False)
    assert [stage.directory for stage in without.stages()] == [stage.directory for stage in made.stages()]
    assert without.model("disco") == made.model("disco")
    without.run(quiet=True)
    assert len(ran.since()) == len(ALL)


def test_a_suite_ends_with_its_reports(tmp_path: Path, ran: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    space = workspace(tmp_path, "average = 2", 'average = 2\nreports = ["main"]')
    assert space.stage("report:main").needs == (
        *("prepare", "average:teacher", "average:disco", "average:mixed"),
    )
    space.run(quiet=True)
    assert ran.since() == [*ALL, "report:main"]
    report = space.stage("report:main")
    assert report.done
    write_text(report.output, "# Main\n\n**Ours**\n\n| a |\n| - |\n| 1 |\n\nNote.\n\n**Theirs**\n\n| b |\n")
    show_results(space)
    said = capsys.readouterr().out
    assert "| disco   | 1.00 | 2.00 |  3.00 |" in said
    assert "**Ours**\n\n| a |\n| - |\n| 1 |\n\nWhole report:" in said
    assert "Theirs" not in said


def test_reports_that_the_suite_has_no_systems_for_are_left_out(
    tmp_path: Path, ran: Ran, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tmp_path / "corpora")
    path = write_suite(tmp_path, "average = 2", 'average = 2\nreports = ["distillation", "strategies"]')
    options = ["--runs", str(tmp_path / "runs"), "--data", str(tmp_path / "corpora")]
    assert main(["suite", "run", str(path), *options, "--stage", "report"]) == 0
    assert "left out: report:distillation: the suite animals has no cmlm model" in capsys.readouterr().out
    assert [name for name in ran.since() if "report" in name] == ["report:strategies"]
    path.write_text(path.read_text().replace('"strategies"', '"strategy"'))
    assert main(["suite", "run", str(path), *options]) == 2
    assert "there is no experiment 'strategy'" in capsys.readouterr().err


def test_the_command_of_a_report(tmp_path: Path, ran: Ran) -> None:
    space = workspace(tmp_path, "average = 2", 'average = 2\nreports = ["main"]')
    space.run("report:main", quiet=True, device="cuda")
    out = space.stage("report:main").output.parent
    assert ran.commands[-1] == [
        *("experiment", "main", "--suite", str(tmp_path / "animals.toml"), "--runs", str(tmp_path / "runs")),
        *("--out", str(out), "--threads", "1", "--device", "cuda", "--quiet"),
    ]


def test_a_part_of_the_data_is_a_stage(tmp_path: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sixteenth of 100 pairs, that is 6; made once for all systems that learn from it."""
    part = '[systems.few]\nlike = "disco"\ndata = "distilled/16"\n[systems.mixed]\ndata = "distilled/16"'
    space = workspace(tmp_path, "[systems.mixed]", part)
    assert space.stage("train:few").needs == space.stage("train:mixed").needs == ("subset:distilled/16",)
    made: list[tuple[Path, Path, int]] = []
    monkeypatch.setattr("disco_mt.suites.runner.write_subset", lambda *given: made.append(given))
    monkeypatch.setattr("disco_mt.suites.runner.Dataset.open", lambda _: Stub({"train": range(100)}))
    space.run("train", quiet=True)
    assert made == [(space.stage("distill").output, space.stage("subset:distilled/16").output, 6)]
    assert "subset:distilled/16" not in ran.since()
    assert space.dataset("distilled/16") == space.stage("subset:distilled/16").output
    for wrong in ("distilled/", "distilled/1", "distilled/half", "spliced/4"):
        with pytest.raises(UserError, match=r"systems\.few: (a part of the data is|data must be)"):
            workspace(
                tmp_path,
                "[systems.mixed]",
                part.replace(
                    'few]\nlike = "disco"\ndata = "distilled/16"', f'few]\nlike = "disco"\ndata = "{wrong}"'
                ),
            )


@dataclass
class Stub:
    """Stands in for a dataset."""

    splits: dict[str, range]


def test_a_limit_is_passed_on(tmp_path: Path, ran: Ran) -> None:
    suite = workspace(tmp_path).suite
    small = replace(suite, data=DataOptions("tatoeba", limit=10))
    Workspace(small, tmp_path / "runs", tmp_path / "corpora").run("prepare", quiet=True)
    source = Path(ran.commands[0][ran.commands[0].index("--source") + 1])
    assert len(source.read_text(encoding="utf-8").splitlines()) == 10


def test_the_runner_of_a_distillation_is_passed_on(tmp_path: Path, ran: Ran) -> None:
    workspace(tmp_path, "[distill]", '[distill]\nrunner = "ray"').run("distill", quiet=True)
    assert ran.commands[-1][ran.commands[-1].index("--runner") + 1] == "ray"


def with_french(folder: Path) -> Workspace:
    """A suite that also lets the teacher translate the English of another pair."""
    more = '[distill.more.extended]\nalso_from = ["en-fr"]\n[distill]'
    suite = load_suite(write_suite(folder, "[distill]", more))
    system = replace(suite.systems["disco"], data="extended")
    return Workspace(
        replace(suite, systems=suite.systems | {"more": system}), folder / "runs", folder / "corpora"
    )


def test_the_sources_of_another_pair_are_translated_too(tmp_path: Path, ran: Ran) -> None:
    write_corpus(tmp_path / "corpora")
    write_corpus(tmp_path / "corpora", languages=("en", "fr"))
    made = with_french(tmp_path)
    made.run(["distill:extended", "distill"], quiet=True)
    by_name = dict(zip([ran.name(each) for each in ran.commands], ran.commands, strict=True))
    french = str(tmp_path / "corpora" / "tatoeba-en-fr" / "train.en")
    known = str(made.stage("distill").output)
    assert by_name["distill:extended"][-5:] == ["--more-sources", french, "--reuse", known, "--quiet"]
    assert "--more-sources" not in by_name["distill"]
    without = Workspace(made.suite, made.folder.parent)
    assert without.stage("distill:extended").done  # what is made can be used without the data
    with Path(french).open("a") as stream:
        stream.write("eel ant\n")
    assert with_french(tmp_path).stage("distill").done
    assert not with_french(tmp_path).stage("distill:extended").done


def test_another_pair_must_be_in_a_folder_of_its_own(tmp_path: Path, ran: Ran) -> None:
    write_corpus(tmp_path / "corpora")
    with pytest.raises(UserError, match="put it into a folder tatoeba-en-fr in the folder of corpora,"):
        with_french(tmp_path).run("distill:extended", quiet=True)
    assert not ran.commands  # before any training


def test_without_the_other_pair_all_else_is_made_and_that_is_said(
    tmp_path: Path, ran: Ran, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tmp_path / "corpora")
    with_french(tmp_path).run()
    assert ran.since() == ALL
    said = capsys.readouterr().out
    assert "left out: distill:extended, train:more, average:more, evaluate:more: the corpus" in said
    write_corpus(tmp_path / "corpora", languages=("en", "fr"))
    with_french(tmp_path).run(quiet=True)
    assert ran.since() == ["distill:extended", "train:more", "average:more", "evaluate:more"]


def test_stages_that_do_not_need_each_other_run_side_by_side(tmp_path: Path, ran: Ran) -> None:
    workspace(tmp_path).run("distill", jobs=2, quiet=True)
    assert ran.most == 1
    ran.together = threading.Barrier(2)  # breaks unless two trainings run at the same time
    workspace(tmp_path).run(["train:disco", "train:mixed"], jobs=2, quiet=True)
    assert ran.most == 2


def test_a_failure_stops_what_needs_it_and_the_rest_is_kept(tmp_path: Path, ran: Ran) -> None:
    ran.code = lambda name: 2 if name == "train:disco" else 0
    with pytest.raises(UserError, match=r"train:disco failed with exit code 2 .*: disco train "):
        workspace(tmp_path).run(quiet=True)
    assert ran.since() == ALL[: ALL.index("train:disco") + 1]
    ran.code = lambda name: 0
    workspace(tmp_path).run(quiet=True)
    assert ran.since() == ALL[ALL.index("train:disco") :]


def test_a_training_that_was_begun_is_resumed(tmp_path: Path, ran: Ran) -> None:
    space = workspace(tmp_path)
    run = space.stage("train:teacher").output
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    space.run("train:teacher", quiet=True)
    assert "--resume" in ran.commands[-1]
    assert "--resume" not in ran.commands[0]


def test_what_was_finished_but_not_marked_is_not_made_again(tmp_path: Path, ran: Ran) -> None:
    space = workspace(tmp_path)
    space.run("average:teacher", quiet=True)
    for name in ("prepare", "average:teacher"):
        (space.stage(name).directory / "done.json").unlink()
    ran.since()
    space.run("average:teacher", quiet=True)
    assert ran.since() == []
    assert space.stage("average:teacher").done


def test_two_processes_do_not_run_the_same_stage(tmp_path: Path, ran: Ran) -> None:
    space = workspace(tmp_path)
    space.run("prepare", quiet=True)
    ran.since()
    stage = space.stage("train:teacher")
    other = threading.Thread(target=lambda: workspace(tmp_path).run("train:teacher", quiet=True))
    with locked(stage.directory, pytest.fail):
        other.start()
        other.join(timeout=0.3)
        assert other.is_alive()
        assert ran.since() == []
        (stage.directory / "done.json").write_text("{}")  # the first process has done it meanwhile
    other.join(timeout=10)
    assert not other.is_alive()
    assert ran.since() == []


def test_a_lock_lasts_as_long_as_the_command_that_inherits_it(tmp_path: Path) -> None:
    with locked(tmp_path / "stage", pytest.fail) as lock:
        child = subprocess.Popen(["sleep", "60"], pass_fds=(lock,))

    class StillLocked(Exception):  # noqa: N818
        pass

    def give_up() -> None:
        raise StillLocked

    try:
        with pytest.raises(StillLocked), locked(tmp_path / "stage", give_up):
            pass
    finally:
        child.kill()
        child.wait()
    with locked(tmp_path / "stage", pytest.fail):
        pass


def test_missing_results_say_how_to_make_them(tmp_path: Path) -> None:
    space = workspace(tmp_path)
    with pytest.raises(UserError, match=r"disco suite run animals --stage average:disco"):
        space.model("disco")
    with pytest.raises(UserError, match=r"--stage distill"):
        space.dataset("distilled")
    with pytest.raises(UserError, match=r"no system 'at'; there are: teacher, disco, mixed"):
        space.model("at")


def test_an_unknown_stage_is_refused_with_the_list(tmp_path: Path, ran: Ran) -> None:
    with pytest.raises(UserError, match=r"no stage 'train:me'; there are: prepare, train:teacher, .*mixed"):
        workspace(tmp_path).run("train:me")
    assert ran.since() == []


def test_no_data_is_told_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the corpus tatoeba is needed"):
        workspace(tmp_path, data=False).run(quiet=True)
    with pytest.raises(UserError, match="there is no folder"):
        Workspace(load_suite(tmp_path / "animals.toml"), tmp_path / "runs", tmp_path / "gone").stages()
    assert not list((tmp_path / "runs").rglob("data"))


@pytest.mark.parametrize("option", ["jobs", "threads", "processes"])
def test_no_jobs_no_threads(tmp_path: Path, option: str) -> None:
    with pytest.raises(UserError, match=f"{option} must be at least 1, got 0"):
        workspace(tmp_path).run(**{option: 0})  # type: ignore[arg-type]


def test_device_and_processes_are_passed_on(tmp_path: Path, ran: Ran) -> None:
    workspace(tmp_path).run("evaluate:disco", quiet=True, processes=2, device="cuda")
    for arguments in ran.commands:
        assert ("--device" in arguments) is (arguments[0] in ("train", "distill", "evaluate")), arguments
    assert "cuda" in ran.commands[1]


def test_a_training_of_two_processes_for_real(tmp_path: Path) -> None:
    """One run, from torchrun; the same recipe with one process has the same directory, and is done then."""
    workspace(tmp_path).run("train:teacher", quiet=True, processes=2)
    assert read_log(workspace(tmp_path).run_directory("teacher"))[-1]["step"] == 4


def test_where_results_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCO_RUNS", "elsewhere")
    assert runs_folder() == Path("elsewhere")
    monkeypatch.delenv("DISCO_RUNS")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert runs_folder() == Path("/cache/disco-mt/runs")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert runs_folder() == Path.home() / ".cache" / "disco-mt" / "runs"
    assert Workspace(load_suite("multi30k.en-de")).folder == runs_folder() / "multi30k.en-de"


def test_commands_that_are_run_for_real(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """From the text to the scores; then again, and nothing happens. tests/slow/ has all stages."""
    corpora, suite = write_corpus(tmp_path / "corpora"), write_suite(tmp_path)
    options = [str(suite), "--runs", str(tmp_path), "--data", str(corpora), "--stage", "evaluate:teacher"]
    assert main(["suite", "run", *options]) == 0
    out = capfd.readouterr().out
    assert "$ disco train " in out
    assert "| teacher |" in out
    space = Workspace(load_suite(suite), tmp_path)
    assert read_config(space.model("teacher")).model.kind == "autoregressive"
    assert Dataset.open(space.dataset("raw")).splits["valid"].references()[0][1].startswith("und ")
    assert 0 < space.training_seconds("teacher") < read_log(space.run_directory("teacher"))[-1]["seconds"]
    assert space.scores("teacher")["sentences"] == 5
    assert space.scores("teacher")["decoding"]["strategy"] == "beam"
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert main(["suite", "run", *options]) == 0
    assert "$ disco" not in capfd.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_suites_are_listed_and_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["suite", "list"]) == 0
    assert "multi30k.en-de  " in capfd.readouterr().out
    suite = write_suite(tmp_path)
    assert main(["suite", "show", str(suite)]) == 0
    shown = capfd.readouterr().out
    assert shown.startswith(suite.read_text(encoding="utf-8"))
    assert "# train:mixed" in shown
    assert main(["suite", "show", str(suite), "--system", "mixed"]) == 0
    assert 'name = "mixture"' in capfd.readouterr().out
    assert main(["suite", "dance"]) == 2
    assert "there are: list, show, run" in capfd.readouterr().err
    assert main(["suite", "run", str(suite), "--stage", "bake"]) == 2
    assert "there are: prepare, train:teacher" in capfd.readouterr().err


def test_the_old_name_is_refused_with_the_new_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "run", "my suite.toml"]) == 2
    assert "disco recipe is now disco suite: disco suite run 'my suite.toml'" in capsys.readouterr().err


def test_a_missing_package_is_told_before_any_training(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    stage = Stage("distill", (), tmp_path / "distill", {})
    space = Workspace(load_suite("tatoeba.en-de"), tmp_path)
    runner = Runner(space, Commands(threads=1), 1, True)
    with pytest.raises(UserError, match=r"CTranslate2 is not installed.*disco-mt\[bench\]"):
        runner.run([stage])
