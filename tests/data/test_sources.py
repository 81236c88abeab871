"""Known corpora: files are found, plain or compressed; errors name missing ones; a download is split."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from disco_mt.core.errors import UserError
from disco_mt.data.sources import SourceFiles, data_folder, find_files, split_by_source, text_files
from disco_mt.text.lines import read_lines

EN_DE = ("en", "de")


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def multi30k(folder: Path, suffix: str = "") -> Path:
    for stem in ("train", "val", "test_2016_flickr"):
        for language in ("en", "de", "fr"):
            write(folder / f"{stem}.{language}{suffix}", f"{stem} {language} 1", f"{stem} {language} 2")
    return folder


def tatoeba(folder: Path) -> Path:
    for stem in ("train", "dev", "test"):
        write(folder / f"{stem}.en.gz", f"{stem} a", f"{stem} b")
        write(folder / f"{stem}.de.gz", f"{stem} A", f"{stem} B")
        if stem != "train":
            rows = (f"{stem} a\t{stem} A\tnoch ein A", f"{stem} b\t{stem} B")
            write(folder / f"{stem}.all-references.tsv.gz", *rows)
    return folder


def lines(path: Path | None) -> list[str]:
    assert path is not None
    return list(read_lines(path))


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_multi30k_in_a_folder_of_corpora_or_its_own(tmp_path: Path, suffix: str) -> None:
    here = multi30k(tmp_path / "multi30k", suffix)
    for folder in (tmp_path, here):
        files = find_files("multi30k", folder, ("de", "fr"))
        assert files.splits["valid"].source == here / f"val.de{suffix}"
        assert files.splits["test"].target == here / f"test_2016_flickr.fr{suffix}"


def test_a_file_and_its_gz_are_the_same_corpus(tmp_path: Path) -> None:
    plain = find_files("multi30k", multi30k(tmp_path / "a"), EN_DE)
    packed = find_files("multi30k", multi30k(tmp_path / "b", ".gz"), EN_DE)
    assert plain.hashes() == packed.hashes()
    write(tmp_path / "a" / "val.de", "something else")
    changed = plain.hashes()
    assert {name for name in changed if changed[name] != packed.hashes()[name]} == {"valid.de"}


def test_what_can_be_read_as_it_is_is_not_copied(tmp_path: Path) -> None:
    files = find_files("multi30k", multi30k(tmp_path / "multi30k"), EN_DE)
    assert text_files(files, tmp_path / "text") == files.splits
    assert not list((tmp_path / "text").iterdir())


def test_references_lose_their_first_column(tmp_path: Path) -> None:
    files = find_files("tatoeba", tatoeba(tmp_path / "tatoeba-en-de").parent, EN_DE)
    splits = text_files(files, tmp_path / "text")
    assert lines(splits["valid"].references) == ["dev A\tnoch ein A", "dev B"]
    assert splits["test"].source == files.splits["test"].source
    assert splits["train"].references is None


def test_references_of_other_sentences_are_refused(tmp_path: Path) -> None:
    write(tatoeba(tmp_path) / "dev.en.gz", "dev a", "another")
    with pytest.raises(UserError, match=r"dev.all-references.tsv.gz, line 2: expected the sentence"):
        text_files(find_files("tatoeba", tmp_path, EN_DE), tmp_path / "text")
    assert not (tmp_path / "text").exists()


@pytest.mark.parametrize("row", ["s{0}\tt{0}\tCC-BY 2.0", "s{0}\tt{0}", "{0}\ts{0}\t{0}9\tt{0}"])
def test_a_download_is_split_here(tmp_path: Path, row: str) -> None:
    write(tmp_path / "deu.txt", *(row.format(number) for number in range(60)))
    write(tmp_path / "_about.txt", "how it was made")
    files = find_files("tatoeba", tmp_path, EN_DE)
    splits = text_files(files, tmp_path / "text")
    assert list(files.paths().values()) == [tmp_path / "deu.txt"]
    assert len(lines(splits["train"].source)) == 54
    sides = [lines(path) for each in splits.values() for path in (each.source, each.target)]
    assert {word[1:] for word in sides[0]} == {word[1:] for word in sides[1]}
    assert sorted(sides[0] + sides[2] + sides[4]) == sorted(f"s{number}" for number in range(60))
    assert lines(splits["test"].references) == sides[5]
    again = text_files(find_files("tatoeba", tmp_path / "deu.txt", EN_DE), tmp_path / "again")
    assert lines(again["valid"].source) == sides[2]


def test_nothing_held_out_is_in_train_and_all_references_are_known() -> None:
    # Every translation is that of two English sentences: a held-out one takes its double out of train.
    pairs = [(f"s{number}", f"t{(number + shift) // 2}") for number in range(200) for shift in (0, 1)]
    train, valid, test = split_by_source(pairs + pairs[:7])
    held_out = dict(valid) | dict(test)
    assert len(valid) == len(test) == 10
    assert len(held_out) == 20
    assert not {source for source, _ in train} & held_out.keys()
    assert not {target for _, target in train} & {each for targets in held_out.values() for each in targets}
    assert all(
        targets == list(dict.fromkeys(t for s, t in pairs if s == x)) for x, targets in held_out.items()
    )
    dropped = set(pairs) - set(train) - {(source, each) for source in held_out for each in held_out[source]}
    assert all(target in {each for targets in held_out.values() for each in targets} for _, target in dropped)


def test_a_limit_is_a_sample_in_which_smaller_ones_are(tmp_path: Path) -> None:
    files = find_files("multi30k", multi30k(tmp_path / "m"), EN_DE)
    for language in EN_DE:
        write(tmp_path / "m" / f"train.{language}", *(f"{language} {number}" for number in range(50)))
    samples = [text_files(files, tmp_path / f"text{limit}", limit)["train"] for limit in (5, 20, 500)]
    drawn = [lines(sample.source) for sample in samples]
    assert [len(each) for each in drawn] == [5, 20, 50]
    assert {*drawn[0]} < {*drawn[1]} < {*drawn[2]}
    assert [line.replace("en", "de") for line in drawn[1]] == lines(samples[1].target)
    assert drawn[1] != drawn[2][:20]


def test_the_phrasebook_is_generated(tmp_path: Path) -> None:
    files = find_files("phrasebook", None, EN_DE)
    assert files.hashes() == {}
    splits = text_files(files, tmp_path / "text")
    assert len(lines(splits["train"].source)) == len(lines(splits["train"].target)) > 12_000
    assert len(lines(splits["test"].references)) == len(lines(splits["test"].source)) == 500


def test_the_folder_comes_from_the_option_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISCO_DATA", raising=False)
    assert data_folder(None) is None
    monkeypatch.setenv("DISCO_DATA", "corpora")
    assert data_folder(None) == Path("corpora")
    assert data_folder(Path("mine")) == Path("mine")


def test_no_folder_says_where_to_get_the_corpus() -> None:
    with pytest.raises(UserError, match=r"--data FOLDER .* DISCO_DATA. .*github.com/multi30k/dataset"):
        find_files("multi30k", None, EN_DE)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no folder .*nowhere"):
        find_files("multi30k", tmp_path / "nowhere", EN_DE)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (multi30k(tmp_path) / "val.de").unlink()
    with pytest.raises(UserError, match=r"there is no val.de \(or .gz\) in .*github.com/multi30k"):
        find_files("multi30k", tmp_path, EN_DE)


def test_several_downloads_are_too_many(tmp_path: Path) -> None:
    write(tmp_path / "deu.txt", "a\tb")
    write(tmp_path / "fra.txt", "a\tb")
    with pytest.raises(UserError, match=r"several tab-separated files \(deu.txt, fra.txt\)"):
        find_files("tatoeba", tmp_path, EN_DE)


@pytest.mark.parametrize(
    ("text", "message"),
    [("a\tb\nonly one column", "line 2: expected source TAB target"), ("a\tb", "too few to hold some out")],
)
def test_a_bad_download(tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path / "deu.txt", text)
    with pytest.raises(UserError, match=message):
        text_files(find_files("tatoeba", tmp_path, EN_DE), tmp_path / "text")


@pytest.mark.parametrize(("source", "languages"), [("phrasebook", ("en", "fr")), ("tatoeba", ("de", "en"))])
def test_languages_that_a_corpus_has_not(source: str, languages: tuple[str, str]) -> None:
    with pytest.raises(UserError, match=f"got {languages[0]}, {languages[1]}"):
        find_files(source, None, languages)  # type: ignore[arg-type]


def test_unequal_files_are_refused_where_a_sample_is_drawn(tmp_path: Path) -> None:
    write(multi30k(tmp_path) / "train.de", "one line")
    files: SourceFiles = find_files("multi30k", tmp_path, EN_DE)
    with pytest.raises(UserError, match="must have the same number of lines"):
        text_files(files, tmp_path / "text", limit=1)
