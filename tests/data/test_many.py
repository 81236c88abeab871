"""Corpora from mtdata: found in a folder, downloaded if missing, read as one."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from hashlib import md5
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlparse

import pytest

from disco_mt.core.errors import UserError
from disco_mt.data.sources import Parts, find_files, obtain, text_files
from disco_mt.text.lines import read_lines
from tiny_mirror import sentences, write_part

EN_DE = ("en", "de")
CRAWL, PARLIAMENT = "Statmt-commoncrawl_wmt13-1-deu-eng", "Statmt-europarl_wmt13-7-deu-eng"
DEV, TEST = "Statmt-newstest-2013-eng-deu", "Statmt-newstest_deen-2014-deu-eng"
PARTS = Parts("wmt14-en-de", (PARLIAMENT, CRAWL), (), DEV, 0, TEST)


def mirror(folder: Path, parts: Parts = PARTS) -> Path:
    for name in (*parts.train, *parts.by_hand):
        write_part(folder / parts.folder / "train-parts", name, EN_DE, 6)
    for name in filter(None, (parts.valid, parts.test)):
        write_part(folder / parts.folder / "tests", name, EN_DE, 3)
    return folder


def lines(path: Path) -> list[str]:
    return list(read_lines(path))


@pytest.mark.parametrize("languages", [("en", "de"), ("de", "en")])
def test_parts_are_one_corpus_in_either_direction(tmp_path: Path, languages: tuple[str, str]) -> None:
    mirror(tmp_path)
    for folder in (tmp_path, tmp_path / "wmt14-en-de"):
        assert not obtain("mtdata", folder, languages, PARTS)
        files = find_files("mtdata", folder, languages, PARTS)
    splits = text_files(files, tmp_path / "text")
    for language, path in zip(languages, (splits["train"].source, splits["train"].target), strict=True):
        assert lines(path) == [*sentences(language, 6, PARLIAMENT), *sentences(language, 6, CRAWL)]
    assert lines(splits["valid"].source) == sentences(languages[0], 3, DEV)
    assert lines(splits["test"].target) == sentences(languages[1], 3, TEST)


def test_every_nth_pair_is_held_out(tmp_path: Path) -> None:
    parts = Parts("wmt14-en-de", (PARLIAMENT, CRAWL), (), "", 5, TEST)
    splits = text_files(find_files("mtdata", mirror(tmp_path, parts), EN_DE, parts), tmp_path / "text")
    whole = [*sentences("en", 6, PARLIAMENT), *sentences("en", 6, CRAWL)]
    assert lines(splits["valid"].source) == [whole[4], whole[9]]
    assert lines(splits["train"].source) == [
        line for number, line in enumerate(whole) if number not in (4, 9)
    ]


def test_a_limit_takes_a_sample_of_all_parts(tmp_path: Path) -> None:
    splits = text_files(find_files("mtdata", mirror(tmp_path), EN_DE, PARTS), tmp_path / "text", limit=4)
    assert len(lines(splits["train"].source)) == len(lines(splits["train"].target)) == 4
    assert {*lines(splits["train"].source)} <= {
        *sentences("en", 6, PARLIAMENT),
        *sentences("en", 6, CRAWL),
    }


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (mirror(tmp_path) / "wmt14-en-de" / "train-parts" / f"{CRAWL}.deu").unlink()
    with pytest.raises(UserError, match=rf"wmt14-en-de is not complete: .* has no train-parts/{CRAWL}.deu"):
        find_files("mtdata", tmp_path, EN_DE, PARTS)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    for use in (find_files, obtain):
        with pytest.raises(UserError, match=r"there is no folder .*nowhere"):
            use("mtdata", tmp_path / "nowhere", EN_DE, PARTS)


def test_what_mtdata_has_not_is_asked_for_first(tmp_path: Path) -> None:
    parts = Parts("wmt17-en-zh", (CRAWL,), ("CWMT-wmt17",), DEV, 0, TEST)
    with pytest.raises(
        UserError, match=r"cannot download the corpus CWMT-wmt17: put it into .*CWMT-wmt17.eng"
    ):
        obtain("mtdata", tmp_path, EN_DE, parts)
    assert not list(tmp_path.iterdir())


def test_without_mtdata_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # as if it were not installed
    with pytest.raises(UserError, match=r"mtdata, which is missing: pip install disco-mt\[wmt\]"):
        obtain("mtdata", tmp_path, EN_DE, PARTS)
    assert not list(tmp_path.iterdir())


# mtdata itself, without the network: its cache of downloads has the archives, very small ones, already.


INDEX = """
import json, pickle, sys
from mtdata import cached_index_file
empty = bytes([99]) + b"mtdata.index\\nIndex\\n" + bytes([41, 129, 125, 98, 46])  # a pickled Index
cached_index_file.write_bytes(empty)
from mtdata.index import DatasetId, Index, statmt  # which reads it, and does not make the index of everything
index = Index()
statmt.load_all(index)
cached_index_file.write_bytes(pickle.dumps(index))
for entry in (index[DatasetId.parse(name)] for name in sys.argv[1:]):
    languages = [*map(str, entry.did.langs)]
    print(json.dumps([str(entry.did), entry.url, entry.filename, entry.in_paths, languages]))
"""


@pytest.fixture
def archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of mtdata: an index of the corpora of WMT alone (of all it takes a minute), and archives."""
    if find_spec("mtdata") is None:
        pytest.skip("mtdata is not installed: pip install disco-mt[wmt]")
    folder = tmp_path / "mtdata"
    folder.mkdir()
    monkeypatch.setenv("MTDATA", str(folder))
    made = subprocess.run(
        [sys.executable, "-c", INDEX, CRAWL, PARLIAMENT, DEV, TEST],
        check=True,
        capture_output=True,
        text=True,
    )
    packed: dict[Path, dict[str, bytes]] = {}
    for line in made.stdout.splitlines():
        name, url, filename, paths, languages = json.loads(line)
        key = md5(url.encode()).hexdigest()
        archive = folder / str(urlparse(url).hostname) / key[:4] / key[4:] / filename
        for path, language in zip(paths, languages, strict=True):
            said = sentences({"deu": "de", "eng": "en"}[language], 6 if name in PARTS.train else 3, name)
            packed.setdefault(archive, {})[path] = as_file(said, path.endswith(".sgm"))
    for archive, files in packed.items():
        pack(archive, files)


def as_file(said: list[str], sgm: bool) -> bytes:
    marked = [f'<seg id="{number}">{line}</seg>' for number, line in enumerate(said, start=1)]
    return ("\n".join(marked if sgm else said) + "\n").encode()


def pack(archive: Path, files: dict[str, bytes]) -> None:
    """An archive that mtdata believes it has downloaded."""
    archive.parent.mkdir(parents=True)
    with tarfile.open(archive, "w:gz") as stream:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            stream.addfile(member, io.BytesIO(content))
    archive.with_name(f"{archive.name}._valid").touch()


@pytest.mark.usefixtures("archives")
def test_mtdata_downloads_what_is_missing(tmp_path: Path) -> None:
    assert obtain("mtdata", tmp_path, EN_DE, PARTS)
    splits = text_files(find_files("mtdata", tmp_path, EN_DE, PARTS), tmp_path / "text")
    assert lines(splits["train"].source) == [*sentences("en", 6, PARLIAMENT), *sentences("en", 6, CRAWL)]
    assert lines(splits["valid"].target) == sentences("de", 3, DEV)
    assert lines(splits["test"].source) == sentences("en", 3, TEST)
    assert not obtain("mtdata", tmp_path, EN_DE, PARTS)


@pytest.mark.usefixtures("archives")
def test_a_download_that_fails_is_named_and_what_is_there_stays(tmp_path: Path) -> None:
    unknown = "Statmt-nothing-1-deu-eng"
    parts = Parts("wmt14-en-de", (PARLIAMENT, unknown), (), DEV, 0, TEST)
    here = mirror(tmp_path) / "wmt14-en-de"
    before = {path: path.read_bytes() for path in here.rglob("Statmt*")}
    with pytest.raises(UserError, match=rf"mtdata could not download {unknown} into .*{unknown}"):
        obtain("mtdata", tmp_path, EN_DE, parts)
    assert {path: path.read_bytes() for path in here.rglob("Statmt*")} == before
