"""Distillation: every sentence gets its teacher's translation, nothing else changes, and no kill matters."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from disco_mt.cli import main
from disco_mt.core.errors import UserError
from disco_mt.data.dataset import Dataset, Side, read_description
from disco_mt.decoding.options import DecodingOptions
from disco_mt.distill import run as run_module
from disco_mt.distill.assemble import assemble
from disco_mt.distill.run import DistillOptions, distill
from disco_mt.distill.shards import EMPTY, TOO_LONG, gather, plan_shards, read_shard, write_shard
from disco_mt.distill.teacher import _batches
from disco_mt.nn.config import Stack
from disco_mt.translator import Translator
from tiny_distill import SETTINGS, contents, make_dataset, make_teacher, spawn

U2 = np.dtype("<u2")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds `data`, `teacher` and `distilled`."""
    folder = tmp_path_factory.mktemp("distil")
    make_teacher(folder / "teacher", make_dataset(folder / "data"), {"dev": {"bleu": 31.5}}, steps=60)
    distill(options_in(folder, folder / "distilled"), quiet=True)
    return folder


def options_in(place: Path, out: Path) -> DistillOptions:
    """The options that SETTINGS spell out for the command line."""
    return DistillOptions(
        str(place / "teacher"), place / "data", out, beam=3, shard_size=16, batch_tokens=128
    )


def side(sentences: list[list[int]]) -> Side:
    ids = np.array([word for words in sentences for word in words], dtype=U2)
    return Side(ids, np.cumsum([0, *map(len, sentences)], dtype=np.int64))


def listed(side: Side) -> list[list[int]]:
    return [side[index].tolist() for index in range(len(side.offsets) - 1)]


# What is translated


def test_equal_sentences_are_one_and_the_shortest_come_first() -> None:
    source = side([[9, 8], [7], [9, 8], [], [5, 6], [1, 2, 3, 4], [7]])
    plan = plan_shards(source, longest=3, shard_size=2)
    assert plan.first.tolist() == [1, 0, 4]
    assert plan.place.tolist() == [1, 0, 1, EMPTY, 2, TOO_LONG, 0]
    assert plan.shards == (range(0, 2), range(2, 3))
    assert plan.sentences(1).tolist() == [4]


@given(
    st.lists(st.lists(st.sampled_from([5, 256, 0x0505]), max_size=4), max_size=30),
    st.integers(1, 5),
    st.integers(1, 7),
)
@settings(deadline=None)
def test_a_plan_has_every_sentence_once(sentences: list[list[int]], longest: int, shard_size: int) -> None:
    source = side(sentences)
    plan = plan_shards(source, longest, shard_size)
    kept = [words for words in sentences if 0 < len(words) <= longest]
    distinct = list(dict.fromkeys(map(tuple, kept)))
    planned = [tuple(sentences[pair]) for pair in plan.first]
    assert planned == sorted(distinct, key=len)  # stable
    assert [number for shard in plan.shards for number in shard] == list(range(len(planned)))
    assert all(0 < len(shard) <= shard_size for shard in plan.shards)
    for words, where in zip(sentences, plan.place, strict=True):
        assert where == EMPTY if not words else where == TOO_LONG or planned[where] == tuple(words)


def test_batches_keep_to_their_budget() -> None:
    sentences = [[1] * length for length in sorted([1, 1, 2, 3, 3, 3, 5, 9, 30])]
    batches = list(_batches(sentences, 12))
    assert [words for batch in batches for words in batch] == sentences
    assert [len(batch) for batch in batches] == [3, 3, 1, 1, 1]  # 30 alone is beyond it, and goes alone


# Shards


def test_a_shard_comes_back_or_is_done_again(tmp_path: Path) -> None:
    words = [(7, 8), (), (65535,)]
    write_shard(tmp_path, 3, words, U2)
    found = read_shard(tmp_path, 3, 3)
    assert found is not None
    assert listed(found) == [list(sentence) for sentence in words]
    assert read_shard(tmp_path, 2, 3) is None  # not there
    assert read_shard(tmp_path, 3, 4) is None  # of other sentences
    path = tmp_path / "shards" / "00000003.safetensors"
    path.rename(tmp_path / "shards" / "00000004.safetensors")
    assert read_shard(tmp_path, 4, 3) is None  # another one's place


@pytest.mark.parametrize("harm", ["cut", "bit", "no checksum", "empty"])
def test_a_damaged_shard_is_none(tmp_path: Path, harm: str) -> None:
    write_shard(tmp_path, 0, [(7, 8), (9,)], U2)
    path = tmp_path / "shards" / "00000000.safetensors"
    content = path.read_bytes()
    if harm == "cut":
        path.write_bytes(content[:-1])
    elif harm == "bit":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif harm == "empty":
        path.write_bytes(b"")
    else:
        save_file(load_file(path), path)
    assert read_shard(tmp_path, 0, 2) is None
    with pytest.raises(UserError, match=r"00000000\.safetensors has gone or is damaged"):
        gather(tmp_path, [range(2)], U2)


def test_shards_are_gathered_in_order(tmp_path: Path) -> None:
    write_shard(tmp_path, 1, [(3,)], U2)
    write_shard(tmp_path, 0, [(1, 2), ()], U2)
    assert listed(gather(tmp_path, [range(2), range(2, 3)], U2)) == [[1, 2], [], [3]]


# The dataset


def test_every_pair_has_its_translation(place: Path) -> None:
    before, after = Dataset.open(place / "data"), Dataset.open(place / "distilled")
    old, new = before.splits["train"], after.splits["train"]
    assert listed(new.source) == listed(old.source)
    teacher = Translator.from_pretrained(place / "teacher")
    found = teacher.translate_ids(listed(old.source), DecodingOptions(beam=3))
    assert [before.text.target.tokens(ids) for ids in listed(new.target)] == [list(t.tokens) for t in found]
    assert len({tuple(ids) for ids in listed(new.target)}) > 100  # it is no constant that agrees


def test_everything_else_is_untouched(place: Path) -> None:
    before, after = contents(place / "data"), contents(place / "distilled")
    assert before.keys() == after.keys()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"dataset.json", "train.target.bin", "train.target.idx"}
    assert not list(place.glob("*.partial"))
    assert not list(place.glob(".*"))


def test_provenance_says_where_it_comes_from(place: Path) -> None:
    provenance = json.loads((place / "distilled" / "provenance.json").read_text())
    assert provenance["teacher"]["dev_bleu"] == 31.5
    assert provenance["teacher"]["kind"] == "autoregressive"
    assert len(provenance["settings"]["teacher"]["weights_sha256"]) == 64
    assert provenance["settings"]["decoding"]["strategy"] == "beam"
    assert provenance["settings"]["decoding"]["beam"] == 3
    assert provenance["versions"].keys() >= {"disco_mt", "torch", "python"}
    assert provenance["date"].startswith("20")


def test_empty_translations_are_dropped_and_counted(place: Path, tmp_path: Path) -> None:
    dataset = Dataset.open(place / "data")
    description = read_description(place / "data", "dataset.json", "a dataset")
    source = dataset.splits["train"].source
    plan = plan_shards(source, longest=10, shard_size=100)
    words = [[7] * (number % 3) for number in range(len(plan.first))]
    assemble(tmp_path, dataset, description, dataset.splits["train"].source, plan, side(words))
    dropped = json.loads((tmp_path / "dataset.json").read_text())["splits"]["train"]["dropped"]
    expected = [
        (ids, words[p]) for ids, p in zip(listed(source), plan.place, strict=True) if p >= 0 and words[p]
    ]
    train = Dataset.open(tmp_path).splits["train"]
    assert list(zip(listed(train.source), listed(train.target), strict=True)) == expected
    assert dropped["too long"] == sum(source.lengths > 10) > 0
    assert dropped["empty"] == 300 - len(expected) - dropped["too long"] > 0


def test_translations_pass_the_filters_of_the_raw_pairs(place: Path, tmp_path: Path) -> None:
    """A teacher that repeats itself, or stops early, makes pairs that preparation would have dropped."""
    dataset = Dataset.open(place / "data")
    description = read_description(place / "data", "dataset.json", "a dataset")
    assert description["limits"] == {"max_length": 250, "max_ratio": 3.0}
    description["limits"] = {"max_length": 40, "max_ratio": 2.0}
    source = dataset.splits["train"].source
    plan = plan_shards(source, longest=100, shard_size=100)
    lengths = [
        int(source.lengths[pair]) * factor for pair, factor in zip(plan.first, cycle((1, 3, 9)), strict=False)
    ]
    assemble(tmp_path, dataset, description, source, plan, side([[7] * length for length in lengths]))
    train = Dataset.open(tmp_path).splits["train"]
    dropped = json.loads((tmp_path / "dataset.json").read_text())["splits"]["train"]["dropped"]
    assert sum(dropped.values()) + len(train) == 300
    assert min(dropped["too long"], dropped["lop-sided"]) > 0
    longer = np.maximum(train.source_lengths, train.target_lengths)
    assert longer.max() <= 40
    assert all((longer <= 10) | (longer <= 2 * train.source_lengths))


def test_nothing_left_is_a_mistake(place: Path, tmp_path: Path) -> None:
    dataset = Dataset.open(place / "data")
    plan = plan_shards(dataset.splits["train"].source, longest=0, shard_size=100)
    with pytest.raises(UserError, match=r"no training pairs are left of 300.* 300 too long"):
        assemble(tmp_path, dataset, {}, dataset.splits["train"].source, plan, side([]))


def test_a_dataset_that_has_changed_is_named(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "data", tmp_path / "data")
    (tmp_path / "data" / "valid.target.txt").write_text("something else\n")
    with pytest.raises(UserError, match=r"valid\.target\.txt is not as it was prepared"):
        distill(replace(options_in(place, tmp_path / "out"), data=tmp_path / "data"), quiet=True)
    assert not (tmp_path / "out").exists()


# Kills


class Killed(BaseException):
    """The process ends here."""


def stopped_after(shards: int, options: DistillOptions) -> None:
    """Finish so many shards, then die."""
    write = run_module.write_shard
    done: list[int] = []

    def counting(work: Path, number: int, *rest: Any) -> None:
        if len(done) == shards:
            raise Killed
        write(work, number, *rest)
        done.append(number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "write_shard", counting)
        with pytest.raises(Killed):
            distill(options, quiet=True)


def test_finished_shards_are_not_done_again(place: Path, tmp_path: Path) -> None:
    options = options_in(place, tmp_path / "out")
    stopped_after(4, options)
    shards = sorted((tmp_path / "out.partial" / "shards").glob("*.safetensors"))
    times = [path.stat().st_mtime_ns for path in shards]
    assert len(shards) == 4
    shards[0].write_bytes(b"damaged")
    stopped_after(3, options)
    assert [path.stat().st_mtime_ns for path in shards[1:]] == times[1:]
    distill(options, quiet=True)
    assert contents(tmp_path / "out") == contents(place / "distilled")
    assert not (tmp_path / "out.partial").exists()


@pytest.mark.parametrize("moment", ["train.target.bin", "out"])
def test_killed_at_a_rename(place: Path, tmp_path: Path, moment: str) -> None:
    """SIGKILL in the moment in which a file, or the whole, would get its name: run as a process."""
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "rename = os.replace\n"
        "def replace(source, target):\n"
        f"    if Path(target).name == {moment!r}:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    rename(source, target)\n"
        "os.replace = replace\n"
        "from disco_mt.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    arguments = ["distill", *SETTINGS, "--model", str(place / "teacher"), "--data", str(place / "data")]
    arguments += ["--out", str(tmp_path / "out")]
    killed = subprocess.run([sys.executable, "-c", script, *arguments], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    assert main(arguments) == 0
    assert contents(tmp_path / "out") == contents(place / "distilled")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_killed_twice_at_any_moment(place: Path, tmp_path: Path) -> None:
    """The same with more kills at random moments: tests/slow/test_distill_killed.py."""
    out, shards = tmp_path / "out", tmp_path / "out.partial" / "shards"
    for least in (2, 6):
        process = spawn(place / "teacher", place / "data", out)
        while len(list(shards.glob("*.safetensors"))) < least and process.poll() is None:
            time.sleep(0.005)
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    distill(options_in(place, out), quiet=True)
    assert contents(out) == contents(place / "distilled")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# Engines and kinds


def test_ctranslate2_finds_the_same(place: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the extra 'bench' is not installed")
    options = replace(options_in(place, tmp_path / "out"), engine="ctranslate2")
    distill(options, quiet=True)
    ours, theirs = (Dataset.open(path).splits["train"].target for path in (place / "distilled", options.out))
    same = [one == other for one, other in zip(listed(ours), listed(theirs), strict=True)]
    assert sum(same) >= 0.97 * len(same)  # float32 may decide near ties otherwise
    provenance = json.loads((options.out / "provenance.json").read_text())
    assert "ctranslate2" in provenance["versions"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_disco_model_may_teach_but_not_through_ctranslate2(place: Path, tmp_path: Path) -> None:
    dataset = Dataset.open(place / "data")
    make_teacher(tmp_path / "teacher", dataset, kind="disco")
    options = replace(options_in(place, tmp_path / "out"), model=str(tmp_path / "teacher"))
    with pytest.raises(UserError, match=r"autoregressive teachers only, but .*teacher is of kind disco"):
        distill(replace(options, engine="ctranslate2"), quiet=True)
    report = distill(options, quiet=True)
    assert report.pairs + report.dropped["lop-sided"] == 300  # its weights are random
    assert report.pairs > 0
    provenance = json.loads((options.out / "provenance.json").read_text())
    assert provenance["settings"]["decoding"]["strategy"] == "easy-first"


def test_the_verb_reports(place: Path, tmp_path: Path, capsys: Any) -> None:
    options = options_in(place, tmp_path / "out")
    stopped_after(2, options)
    places = ["--model", options.model, "--data", str(options.data), "--out", str(options.out)]
    assert main(["distill", *SETTINGS[:-1], "--json", *places]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {
        "out": str(options.out),
        "pairs": 300,
        "dropped": {"empty": 0, "too long": 0, "lop-sided": 0},
    }
    assert "197 different sentences of 300 to translate, in 13 shards; 2 were finished before" in shown.err
    provenance = json.loads((options.out / "provenance.json").read_text())
    assert provenance["command"] == ""  # of the call that began it


# Mistakes: named, exit code 2, nothing of earlier work lost


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([str(argument) for argument in arguments]) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("languages", "more", "message"),
    [
        (("en", "fr"), {}, "teacher translates en-fr, but the data in {data} are en-de"),
        (("de", "en"), {}, "teacher translates de-en, but the data in {data} are en-de"),
        (("en", "de"), {"pairs": 5}, "has another source tokenizer"),
        (("en", "de"), {"vocabulary": "separate"}, "has another source tokenizer"),
    ],
)
def test_a_teacher_that_does_not_fit(
    place: Path, tmp_path: Path, capsys: Any, languages: Any, more: Any, message: str
) -> None:
    other = make_dataset(tmp_path / "other", languages, **more)
    tying = "none" if "vocabulary" in more else "all"
    make_teacher(tmp_path / "teacher", other, tying=tying)
    data, before = place / "data", sorted(tmp_path.iterdir())
    out = tmp_path / "out"
    error = refused(capsys, "distill", "--model", tmp_path / "teacher", "--data", data, "--out", out)
    assert message.format(data=data) in error
    assert sorted(tmp_path.iterdir()) == before


def test_an_output_that_exists(place: Path, capsys: Any) -> None:
    before = contents(place / "distilled")
    arguments = ["--model", place / "teacher", "--data", place / "data", "--out", place / "distilled"]
    assert "already exists" in refused(capsys, "distill", *arguments)
    assert contents(place / "distilled") == before


def test_other_settings_do_not_go_on(place: Path, tmp_path: Path) -> None:
    options = options_in(place, tmp_path / "out")
    stopped_after(1, options)
    make_teacher(tmp_path / "teacher", Dataset.open(place / "data"), decoder=Stack(2, 2, 32))
    for changes, message in (
        ({"beam": 4}, r"decoding\.beam was 3, is 4"),
        ({"shard_size": 17}, r"shards\.shard_size was 16, is 17"),
        (
            {"model": str(tmp_path / "teacher")},
            r"teacher\.weights_sha256 was '\w+', is '\w+'; .*layers was 1",
        ),
    ):
        with pytest.raises(UserError, match=rf"out\.partial has an unfinished .*: {message}.* remove"):
            distill(replace(options, **changes), quiet=True)
    distill(options, quiet=True)
    assert contents(options.out) == contents(place / "distilled")


def test_another_ones_directory_is_left_alone(place: Path, tmp_path: Path) -> None:
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "precious").write_text("mine")
    with pytest.raises(UserError, match=r"out\.partial is needed .* has something else in it"):
        distill(options_in(place, tmp_path / "out"), quiet=True)
    assert (tmp_path / "out.partial" / "precious").read_text() == "mine"


def test_two_processes_do_not_share_a_directory(place: Path, tmp_path: Path, monkeypatch: Any) -> None:
    options = options_in(place, tmp_path / "out")

    def second(*_: object) -> None:
        with pytest.raises(UserError, match="another process is at work"):
            distill(options, quiet=True)
        raise Killed

    monkeypatch.setattr(run_module, "write_shard", second)
    with pytest.raises(Killed):
        distill(options, quiet=True)


def test_a_full_disk_is_named(place: Path, tmp_path: Path, monkeypatch: Any) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_module, "write_shard", full)
    with pytest.raises(UserError, match=r"cannot write .*out: No space left on device; finished shards"):
        distill(options_in(place, tmp_path / "out"), quiet=True)
    assert not list(tmp_path.iterdir())  # nothing was finished: nothing is left


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("beam", 0, "beam must be at least 1, got 0"),
        ("length-penalty", "nan", "length_penalty must be at least 0, got nan"),
        ("shard-size", 0, "shard_size must be at least 1, got 0"),
        ("threads", -1, "--threads must be at least 0, got -1"),
        ("model", "nowhere", "there is no model 'nowhere'"),
        ("data", "nowhere", "nowhere is not a dataset directory"),
    ],
)
def test_bad_options(place: Path, tmp_path: Path, capsys: Any, option: str, value: Any, message: str) -> None:
    given = {"model": place / "teacher", "data": place / "data", "out": tmp_path / "out"} | {option: value}
    arguments = [part for name, each in given.items() for part in (f"--{name}", each)]
    assert message in refused(capsys, "distill", *arguments)
    assert not list(tmp_path.iterdir())


# The verbs beside it


def test_average_prints_what_it_averages(place: Path, tmp_path: Path, capsys: Any) -> None:
    dataset, run = Dataset.open(place / "data"), tmp_path / "run"
    for step, bleu in ((1000, 20.5), (2000, 31.25), (3000, 30.0)):
        make_teacher(run / "best" / f"step-{step:08d}", dataset, {"step": step, "dev": {"bleu": bleu}})
    (run / "run.json").write_text("{}")
    assert main(["average", str(run), "--out", str(tmp_path / "model"), "--number", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path / 'model'}: the mean of 2 checkpoints of {run}",
        "  step     2,000   dev BLEU 31.25",
        "  step     3,000   dev BLEU 30.00",
    ]
    assert Translator.from_pretrained(tmp_path / "model").model.config.kind == "autoregressive"
    assert "already exists" in refused(capsys, "average", run, "--out", tmp_path / "model")


def test_nothing_to_average(tmp_path: Path, capsys: Any) -> None:
    run, out = tmp_path / "run", tmp_path / "model"
    assert "is not a training run" in refused(capsys, "average", run, "--out", out)
    run.mkdir()
    (run / "run.json").write_text("{}")
    assert "has no models to average yet" in refused(capsys, "average", run, "--out", out, "--number", 1)
    assert not out.exists()


def test_export(place: Path, tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("ctranslate2", reason="the extra 'bench' is not installed")
    from disco_mt.engine.ctranslate2 import CTranslate2Engine

    arguments = ["export", "--model", place / "teacher", "--format", "ctranslate2", "--out", tmp_path / "ct2"]
    assert main([str(argument) for argument in arguments]) == 0
    source = listed(Dataset.open(place / "data").splits["train"].source)[:20]
    ours = Translator.from_pretrained(place / "teacher")
    expected = [list(found.tokens) for found in ours.translate_ids(source, DecodingOptions(beam=3))]
    found = CTranslate2Engine(tmp_path / "ct2").translate(source, 3, 1.0)
    assert [ours.text.target.tokens(each.tokens) for each in found] == expected
    assert "already exists" in refused(capsys, *arguments)
    make_teacher(tmp_path / "disco", Dataset.open(place / "data"), kind="disco")
    error = refused(
        capsys, "export", "--model", tmp_path / "disco", "--format", "ctranslate2", "--out", tmp_path / "no"
    )
    assert "only autoregressive models" in error
    assert not (tmp_path / "no").exists()


def test_a_teacher_distils_with_the_length_penalty_it_is_scored_with(place: Path, tmp_path: Path) -> None:
    teacher = tmp_path / "teacher"
    shutil.copytree(place / "teacher", teacher)
    config = json.loads((teacher / "config.json").read_text())
    config["extra"]["decoding"] = {"length_penalty": 1.6}
    (teacher / "config.json").write_text(json.dumps(config))
    for name, asked, used in (("own", None, 1.6), ("asked", 0.4, 0.4)):
        options = replace(
            options_in(place, tmp_path / name), model=str(teacher), length_penalty=asked, shard_size=300
        )
        distill(options, quiet=True)
        provenance = json.loads((options.out / "provenance.json").read_text())
        assert provenance["settings"]["decoding"]["length_penalty"] == used
    assert listed_targets(tmp_path / "own") != listed_targets(tmp_path / "asked")


def listed_targets(dataset: Path) -> list[list[int]]:
    return listed(Dataset.open(dataset).splits["train"].target)
