"""From text files to a dataset directory: complete, or an error that names the problem."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from disco_mt.core.errors import UserError
from disco_mt.data import encode as encode_module
from disco_mt.data import prepare as prepare_module
from disco_mt.data.dataset import Dataset, id_type
from disco_mt.data.prepare import PrepareOptions, prepare

ENGLISH = [f"The {animal} sees {number} dogs." for animal in ("cat", "bird", "child") for number in range(20)]
GERMAN = [
    f"{animal} sieht {n} Hunde." for animal in ("Die Katze", "Der Vogel", "Das Kind") for n in range(20)
]


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


@pytest.fixture
def options(tmp_path: Path) -> PrepareOptions:
    return PrepareOptions(
        source=write(tmp_path / "train.en", ENGLISH),
        target=write(tmp_path / "train.de", GERMAN),
        out=tmp_path / "dataset",
        source_language="en",
        target_language="de",
        valid_source=write(tmp_path / "valid.en", ["The cat sees.", "", "No\u2028break"]),
        valid_target=write(tmp_path / "valid.de", ["Die Katze sieht.", "", "Kein\u2028Umbruch " * 300]),
        valid_references=write(
            tmp_path / "valid.tsv", ["Die Katze sieht.\tDie Mieze sieht.", "", "Kein Umbruch"]
        ),
        test_source=write(tmp_path / "test.en", ["The bird sees a tab."]),
        test_target=write(tmp_path / "test.de", ["Der Vogel sieht\tein Tab."]),
        vocabulary_size=300,
    )


def leftovers(options: PrepareOptions) -> list[str]:
    """Names next to the inputs: no partial output may remain."""
    return [
        path.name
        for path in options.out.parent.iterdir()
        if not path.name.startswith(("train.", "valid.", "test."))
    ]


def test_every_pair_arrives_as_ids(options: PrepareOptions) -> None:
    report = prepare(options, quiet=True)
    dataset = Dataset.open(options.out)
    train = dataset.splits["train"]
    assert len(train) == report.splits["train"].pairs == 60
    for index in (0, 31, 59):
        source, target = train.pair(index)
        assert dataset.text.source.decode(source.tolist()) == ENGLISH[index]
        assert dataset.text.target.decode(target.tolist()) == GERMAN[index]
        assert (train.source_lengths[index], train.target_lengths[index]) == (len(source), len(target))
    assert report.splits["train"].source_tokens == train.source_lengths.sum()
    assert isinstance(train.source.ids.base, memoryview)  # of a file that is mapped, not read
    assert train.source.ids.dtype == np.uint16
    assert report.joint
    assert report.source_vocabulary_size == dataset.text.source.vocabulary_size <= 300


def test_held_out_text_keeps_every_line(options: PrepareOptions) -> None:
    report = prepare(options, quiet=True)
    splits = Dataset.open(options.out).splits
    assert splits["valid"].source_text() == ["The cat sees.", "", "No\u2028break"]
    assert splits["valid"].references() == [["Die Katze sieht.", "Die Mieze sieht."], [""], ["Kein Umbruch"]]
    assert splits["test"].references() == [["Der Vogel sieht\tein Tab."]]  # a target is never cut at tabs
    assert splits["test"].target_text() == ["Der Vogel sieht\tein Tab."]
    assert splits["valid"].source_lengths[1] == 0
    assert splits["valid"].target_lengths[2] > options.max_length
    assert report.splits["valid"].pairs == 3
    assert report.splits["valid"].dropped == {}


def test_training_text_is_not_kept(options: PrepareOptions) -> None:
    prepare(options, quiet=True)
    with pytest.raises(UserError, match="the text of train is not kept"):
        Dataset.open(options.out).splits["train"].source_text()


def test_unfit_training_pairs_are_dropped_and_counted(options: PrepareOptions) -> None:
    pairs = [
        ("", "leer"),
        ("empty", "  "),
        ("x " * 40, "x " * 40),
        ("x " * 16, "x " * 5),
        ("x " * 10, "x"),
        ("x " * 15, "x " * 5),
    ]
    write(options.source, ENGLISH + [source for source, _ in pairs])
    write(options.target, GERMAN + [target for _, target in pairs])
    report = prepare(replace(options, max_length=30), quiet=True).splits["train"]
    assert report.dropped == {"empty": 2, "too long": 1, "lop-sided": 1}
    assert report.pairs == 60 + 2
    described = json.loads((options.out / "dataset.json").read_text())
    assert described["splits"]["train"]["dropped"] == report.dropped


def test_gzip_crlf_and_a_byte_order_mark_make_no_difference(options: PrepareOptions) -> None:
    prepare(options, quiet=True)
    packed = options.source.with_name("train.en.gz")
    packed.write_bytes(gzip.compress(("\ufeff" + "\r\n".join(ENGLISH)).encode()))
    again = replace(options, source=packed, out=options.out.with_name("again"))
    prepare(again, quiet=True)
    assert Dataset.open(again.out).fingerprint == Dataset.open(options.out).fingerprint


def test_separate_vocabularies_and_moses(options: PrepareOptions) -> None:
    report = prepare(replace(options, vocabulary="separate", processing="moses"), quiet=True)
    dataset = Dataset.open(options.out)
    assert not report.joint
    assert not dataset.text.joint
    source, target = dataset.splits["train"].pair(0)
    assert dataset.text.source.decode(source.tolist()) == ENGLISH[0]
    assert dataset.text.target.decode(target.tolist()) == GERMAN[0]


def test_tokenizers_of_another_dataset_are_reused(options: PrepareOptions) -> None:
    prepare(options, quiet=True)
    distilled = write(options.target.with_name("train.distilled"), list(reversed(GERMAN)))
    again = replace(options, target=distilled, tokenizers=options.out, out=options.out.with_name("again"))
    prepare(again, quiet=True)
    first, second = Dataset.open(options.out), Dataset.open(again.out)
    assert (options.out / "tokenizer.json").read_bytes() == (again.out / "tokenizer.json").read_bytes()
    assert (first.splits["train"].pair(0)[0] == second.splits["train"].pair(0)[0]).all()
    assert (first.splits["train"].pair(0)[1] == second.splits["train"].pair(59)[1]).all()
    with pytest.raises(UserError, match="are for en-de, expected de-en"):
        prepare(
            replace(again, source_language="de", target_language="en", out=options.out.with_name("third")),
            quiet=True,
        )


@pytest.mark.parametrize("processing", ["raw", "moses"])
def test_files_do_not_depend_on_the_number_of_jobs(
    options: PrepareOptions, processing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encode_module, "CHUNK", 7)  # so that every process gets some of it
    write(options.source, [*ENGLISH, "", "x " * 400])
    write(options.target, [*GERMAN, "leer", "x " * 400])
    options = replace(options, processing=processing)
    found = []
    for jobs in (1, 2) if processing == "moses" else (1, 2, 3):
        out = options.out.with_name(f"jobs{jobs}")
        report = prepare(replace(options, out=out, jobs=jobs), quiet=True)
        assert report.splits["train"].dropped == {"empty": 1, "too long": 1, "lop-sided": 0}
        found.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert all(files == found[0] for files in found)


def test_mistakes_in_other_processes_are_named(options: PrepareOptions) -> None:
    options.target.write_bytes(b"\xff\n")
    with pytest.raises(UserError, match=r"train\.de, line 1: not valid UTF-8"):
        prepare(replace(options, jobs=2), quiet=True)
    assert leftovers(options) == []


def test_a_large_corpus_is_sampled_evenly(options: PrepareOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_module, "SAMPLE", 6)
    sample = list(prepare_module._sample(options.source, 60, False, lambda steps: None))
    assert sample == ENGLISH[9::10]


def test_text_without_spaces_is_sampled_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_module, "SAMPLE", 50)
    chinese = write(tmp_path / "text.zh", ["我们今天去北京看我的老朋友和他的家人。"] * 60)
    assert prepare_module._sample_size(chinese, 60, split=False) == 5
    assert prepare_module._sample_size(write(tmp_path / "text.en", ENGLISH), 60, split=False) == 50


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocabulary": "shared"}, "vocabulary must be one of joint, separate; got 'shared'"),
        ({"processing": "spm"}, "processing must be one of raw, moses, pretokenized; got 'spm'"),
        ({"max_length": 0}, "max_length must be at least 1, got 0"),
        ({"max_ratio": 0.5}, "max_ratio must be at least 1, got 0.5"),
        ({"jobs": -1}, "jobs must be at least 0, got -1"),
        ({"vocabulary_size": 100}, "vocabulary_size must be at least 261"),
        ({"source_language": ""}, "source_language must be a language code"),
        ({"valid_target": None}, "valid_source and valid_target go together"),
        ({"valid_source": None, "valid_target": None}, "valid_references needs valid_source"),
        ({"tokenizers": Path("nowhere")}, "nowhere is not a dataset or model directory"),
        ({"source": Path("nowhere.en")}, "cannot read nowhere.en: No such file"),
        ({"target": Path("/")}, "cannot read /: it must be a file"),
        ({"max_length": 1}, "no training pairs are left .dropped: 0 empty, 60 too long"),
    ],
)
def test_mistakes_are_named_and_leave_nothing_behind(
    options: PrepareOptions, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        prepare(replace(options, **change), quiet=True)
    assert leftovers(options) == []


def test_unequal_line_counts_name_both(options: PrepareOptions) -> None:
    write(options.target, GERMAN[:-1])
    with pytest.raises(UserError, match=r"train\.en has 60, .*train\.de has 59"):
        prepare(options, quiet=True)
    write(options.target, GERMAN)
    assert options.valid_references
    write(options.valid_references, ["a"])
    with pytest.raises(UserError, match=r"valid\.en has 3, .*valid\.de has 3, .*valid\.tsv has 1"):
        prepare(options, quiet=True)
    assert leftovers(options) == []


def test_broken_encoding_names_file_and_line(options: PrepareOptions) -> None:
    options.target.write_bytes("\n".join(GERMAN).encode().replace(b"Vogel", b"V\xf6gel", 1))
    with pytest.raises(UserError, match=r"train\.de, line 21: not valid UTF-8"):
        prepare(options, quiet=True)
    assert leftovers(options) == []


def test_an_existing_output_is_refused_and_untouched(options: PrepareOptions) -> None:
    options.out.mkdir()
    write(options.out / "precious", ["data"])
    with pytest.raises(UserError, match="dataset already exists"):
        prepare(options, quiet=True)
    assert [path.name for path in options.out.iterdir()] == ["precious"]


def test_a_failure_while_writing_leaves_nothing(
    options: PrepareOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(prepare_module, "write_split", full_disk)
    with pytest.raises(UserError, match=r"cannot write .*dataset: No space left on device"):
        prepare(options, quiet=True)
    assert leftovers(options) == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user whom permissions bind")
def test_an_unreadable_file_is_named(options: PrepareOptions) -> None:
    options.source.chmod(0)
    with pytest.raises(UserError, match=r"cannot read .*train.en: Permission denied"):
        prepare(options, quiet=True)


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    description = json.loads(path.read_text())
    change(description)
    path.write_text(json.dumps(description))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda out: (out / "dataset.json").unlink(), "is not a dataset directory"),
        (lambda out: (out / "dataset.json").write_text("{"), "cannot read .*dataset.json"),
        (lambda out: (out / "dataset.json").write_text("[]"), "must be a JSON object"),
        (
            lambda out: edit(out / "dataset.json", lambda d: d.update(format_version=99)),
            "format version 99, this Disco",
        ),
        (lambda out: edit(out / "dataset.json", lambda d: d.pop("splits")), "is incomplete"),
        (lambda out: edit(out / "dataset.json", lambda d: d["splits"].pop("train")), "has no train split"),
        (lambda out: (out / "train.source.bin").unlink(), "cannot read .*train.source.bin: No such file"),
        (
            lambda out: (out / "valid.target.idx").write_bytes(b"123"),
            "valid.target.idx should have 32 bytes, found 3",
        ),
        (
            lambda out: (out / "test.source.idx").write_bytes(np.array([0, 1]).tobytes()),
            "test.source.idx does not belong to test.source.bin",
        ),
        (lambda out: (out / "tokenizer.json").write_text("{}"), "does not belong to these weights or data"),
    ],
)
def test_a_damaged_dataset_is_refused(
    options: PrepareOptions, damage: Callable[[Path], object], message: str
) -> None:
    prepare(options, quiet=True)
    damage(options.out)
    with pytest.raises(UserError, match=message):
        Dataset.open(options.out)


def test_large_vocabularies_have_wider_ids() -> None:
    assert id_type(65_536).itemsize == 2
    assert id_type(65_537).itemsize == 4


def test_progress_is_plain_lines_off_a_terminal(
    options: PrepareOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(options)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "encoding train: 60 done" in captured.err
    prepare(replace(options, out=options.out.with_name("again")), quiet=True)
    assert capsys.readouterr().err == ""


def test_preparing_does_not_import_torch() -> None:
    code = "import sys, disco_mt.data.prepare; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
