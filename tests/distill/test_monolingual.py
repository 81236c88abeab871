"""Sentences of other text as more sources: which of them are taken, and what distillation makes of them."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from disco_mt.cli import main
from disco_mt.core.errors import UserError
from disco_mt.data.dataset import Dataset
from disco_mt.distill.run import DistillOptions, distill
from disco_mt.distill.sources import with_more
from disco_mt.translator import Translator
from tiny_distill import make_dataset, make_teacher, write


def texts(dataset: Dataset, files: list[Path]) -> list[str]:
    source = with_more(dataset, files)
    return [dataset.text.source.decode(source[index].tolist()) for index in range(len(source.lengths))]


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    """Held out are "a dog." and "A Cat!"."""
    files = {
        "source": ["an eel", "a fox"],
        "target": ["ein Aal", "ein Fuchs"],
        "valid-source": ["a dog."],
        "valid-target": ["ein Hund."],
        "test-source": ["A Cat!"],
        "test-target": ["Eine Katze!"],
    }
    options = [
        word for name, lines in files.items() for word in (f"--{name}", str(write(tmp_path / name, lines)))
    ]
    languages = ["--source-language", "en", "--target-language", "de", "--vocabulary-size", "270"]
    assert main(["prepare", *options, *languages, "--out", str(tmp_path / "data")]) == 0
    return Dataset.open(tmp_path / "data")


def test_new_sentences_follow_the_corpus_in_their_order(data: Dataset, tmp_path: Path) -> None:
    one = write(tmp_path / "one", ["a hen", "an eel", "", "a gnu", "a hen"])
    other = tmp_path / "other.gz"
    other.write_bytes(gzip.compress(b"a bee\na gnu\n"))
    assert texts(data, [one, other]) == ["an eel", "a fox", "a hen", "a gnu", "a bee"]


@pytest.mark.parametrize("line", ["a dog.", "A dog", "a, cat", "?!", "  "])
def test_what_is_held_out_stays_so(data: Dataset, tmp_path: Path, line: str) -> None:
    assert texts(data, [write(tmp_path / "more", [line, "a doge"])]) == ["an eel", "a fox", "a doge"]


def test_without_files_it_is_the_corpus_itself(data: Dataset) -> None:
    assert with_more(data, []) is data.splits["train"].source


def test_the_teacher_translates_them_too(tmp_path: Path) -> None:
    data = make_dataset(tmp_path / "data", pairs=300)
    make_teacher(tmp_path / "teacher", data, {}, steps=60)
    more = write(tmp_path / "more", ["w3 w1 w4 w1 w5 w9 w2 w6 w5 w3 w5 w8 w9"])
    options = DistillOptions(str(tmp_path / "teacher"), tmp_path / "data", tmp_path / "out", beam=2)
    distill(replace(options, more_sources=(more,)), quiet=True)
    train = Dataset.open(tmp_path / "out").splits["train"]
    source, target = train.pair(len(train) - 1)
    assert data.text.source.decode(source.tolist()) == more.read_text().strip()
    again = Translator.from_pretrained(tmp_path / "teacher").translate_ids(
        [source.tolist()], options.decoding
    )[0]
    assert list(again.tokens) == data.text.target.tokens(target.tolist())
    settings = json.loads((tmp_path / "out" / "provenance.json").read_text())["settings"]
    assert len(settings["data"]["more_sources_sha256"]) == 1


def test_unfinished_work_goes_on_with_the_same_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_dataset(tmp_path / "data", pairs=300)
    make_teacher(tmp_path / "teacher", data, {}, steps=60)
    more = write(tmp_path / "more", ["w1 w2 w3 w4 w5 w6 w7 w8 w9 w1 w2 w3 w4"])
    options = DistillOptions(
        str(tmp_path / "teacher"), tmp_path / "data", tmp_path / "out", beam=2, more_sources=(more,)
    )
    with monkeypatch.context() as patched:
        patched.setattr("disco_mt.distill.run.assemble", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            distill(options, quiet=True)
    write(more, ["w9 w9"])
    with pytest.raises(UserError, match="more_sources_sha256 was"):
        distill(options, quiet=True)


def test_a_missing_file_is_named_and_nothing_is_left(
    data: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_teacher(tmp_path / "teacher", data)
    command = ["distill", "--model", str(tmp_path / "teacher"), "--data", str(data.path)]
    assert main([*command, "--out", str(tmp_path / "out"), "--more-sources", str(tmp_path / "none.en")]) == 2
    assert f"cannot read {tmp_path / 'none.en'}" in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))
