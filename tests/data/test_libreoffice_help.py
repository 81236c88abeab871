"""The help of LibreOffice: pages are read, aligned and split; packages come from apt, never half of them.

apt-get and dpkg-deb run for real, on a small repository in a folder.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from disco_mt.cli import main
from disco_mt.core.errors import UserError
from disco_mt.data.sources import find_files, obtain, text_files
from disco_mt.data.sources.libreoffice_help import paragraphs, split_of
from disco_mt.text.lines import read_lines

EN_DE = ("en", "de")
PACKAGES = {"en-US": "libreoffice-help-en-us", "de": "libreoffice-help-de"}
debian = pytest.mark.skipif(
    not (shutil.which("apt-get") and shutil.which("dpkg-deb")),
    reason="this machine has no apt-get and dpkg-deb",
)

PAGE = """<html><head><title>Cells</title></head><body>
<h1 id="hd_1" dir="auto"> Inserting <span class="emph">new</span> cells </h1>
<p id="par_2" class="paragraph">Press <span class="switchinline"><span class="MAC"><span class="keycode">
Command<br></span></span><span><span class="keycode">Ctrl</span></span></span>+F.<br>A &amp; B.</p>
<p id="par_3" class="code">PRINT 1</p>
<div class="embedded"><p id="par_2" class="paragraph">The second of that name.</p><p id="par_4"></p></div>
<p class="howtogetheader">To access this command...</p>
<h2 id="hd_5">The end</h2>
</body></html>"""


def test_paragraphs_of_a_page() -> None:
    assert paragraphs(PAGE) == {
        ("hd_1", 0): "Inserting new cells",
        ("par_2", 0): "Press Ctrl+F. A & B.",
        ("par_2", 1): "The second of that name.",
        ("hd_5", 0): "The end",
    }


def page(*texts: str) -> str:
    return "".join(f'<p id="par_{number}">{text}</p>' for number, text in enumerate(texts))


def names(split: str, number: int) -> list[str]:
    """Names of pages that belong to a split."""
    found = (f"text/{split}{number}.html" for number in range(9999))
    return [name for name in found if split_of(name.removeprefix("text/")) == split][:number]


def help_pages() -> dict[str, dict[str, str]]:
    """Language of a package -> its pages: a few for each split, all with one common paragraph."""
    pages: dict[str, dict[str, str]] = {"en-US": {}, "de": {}}
    for split in ("train", "valid", "test"):
        for number, name in enumerate(names(split, 3)):
            own = f"{split} {('oak', 'elm', 'ash')[number]}"
            english = f"This is {own}. It is short.", "Every page says so.", "Save", "Not in German"
            pages["en-US"][name] = page(*english)
            pages["de"][name] = page(f"Das ist {own}. Es ist kurz.", "So jede Seite.", "Sichern", english[-1])
    pages["en-US"][names("train", 4)[3]] = page("Nobody has translated this page.")
    one = names("train", 1)[0]
    pages["en-US"][one] += '<p id="u">Two sentences here. They become one.</p>'
    pages["de"][one] += '<p id="u">Zwei Sätze werden hier einer.</p>'
    return pages


def build(folder: Path, language: str, pages: dict[str, str], version: str = "1") -> Path:
    """A real package."""
    root = folder / f"{language}-{version}"
    for name, text in pages.items():
        path = root / "usr/share/libreoffice/help" / language / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"<html><body>{text}</body></html>", encoding="utf-8")
    control = root / "DEBIAN" / "control"
    control.parent.mkdir(parents=True)
    name = PACKAGES[language]
    control.write_text(
        f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: Nobody <no@example.org>\n"
        "Description: help\n"
    )
    file = folder / f"{name}_{version}_all.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", root, file], check=True, capture_output=True)
    shutil.rmtree(root)
    return file


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    folder = tmp_path / "debs" / "libreoffice-help-en-de"
    folder.mkdir(parents=True)
    for language, pages in help_pages().items():
        build(folder, language, pages)
    return folder


def lines(path: Path) -> list[str]:
    return list(read_lines(path))


@debian
@pytest.mark.parametrize("languages", [("en", "de"), ("de", "en")])
def test_pages_are_held_out_and_what_is_tested_is_not_in_train(
    packages: Path, tmp_path: Path, languages: tuple[str, str]
) -> None:
    for folder in (packages, packages.parent):
        files = find_files("libreoffice-help", folder, languages)
    splits = text_files(files, tmp_path / "text")
    sides = {split: (lines(each.source), lines(each.target)) for split, each in splits.items()}
    english = {split: each[languages.index("en")] for split, each in sides.items()}
    german = {split: each[languages.index("de")] for split, each in sides.items()}
    own = {split: {f"This is {split} {tree}." for tree in ("oak", "elm", "ash")} for split in splits}
    assert {*english["train"]} == own["train"] | {"It is short.", "Every page says so."}
    assert len(english["train"]) == 5
    assert german["train"][english["train"].index("It is short.")] == "Es ist kurz."
    for split in ("valid", "test"):
        assert {*english[split]} == own[split]
        assert [each.replace("Das ist", "This is") for each in german[split]] == english[split]
    again = text_files(files, tmp_path / "again")
    assert [lines(each.source) for each in again.values()] == [sides[split][0] for split in again]


@debian
def test_the_hashes_are_those_of_the_packages(packages: Path) -> None:
    before = find_files("libreoffice-help", packages, EN_DE).hashes()
    assert before.keys() == {"en", "de"}
    (packages / f"{PACKAGES['de']}_1_all.deb").unlink()
    build(packages, "de", help_pages()["de"] | {"text/new.html": page("Das ist jetzt neu.")}, "2")
    after = find_files("libreoffice-help", packages, EN_DE).hashes()
    assert {name for name in after if after[name] != before[name]} == {"de"}


def test_other_languages_are_refused(tmp_path: Path) -> None:
    for languages in (("de", "fr"), ("en", "en"), ("en", "nl")):
        with pytest.raises(UserError, match=f"en with one of de, fr, zh; got {', '.join(languages)}"):
            find_files("libreoffice-help", tmp_path, languages)


def test_a_missing_or_double_package_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "libreoffice-help-en-de"
    folder.mkdir()
    with pytest.raises(UserError, match=r"has no file libreoffice-help-en-us_\*.deb, .*apt-get download"):
        find_files("libreoffice-help", tmp_path, EN_DE)
    for version in (1, 2):
        (folder / f"libreoffice-help-en-us_{version}_all.deb").touch()
    with pytest.raises(UserError, match=r"has several files libreoffice-help-en-us_\*.deb, expected one"):
        find_files("libreoffice-help", tmp_path, EN_DE)


@debian
def test_a_broken_package_is_named(packages: Path, tmp_path: Path) -> None:
    file = packages / f"{PACKAGES['de']}_1_all.deb"
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(UserError, match=r"cannot unpack .*libreoffice-help-de_1_all.deb: "):
        text_files(find_files("libreoffice-help", packages, EN_DE), tmp_path / "text")
    assert not (tmp_path / "text").exists()


@debian
def test_a_package_without_help_is_named(packages: Path, tmp_path: Path) -> None:
    (packages / f"{PACKAGES['de']}_1_all.deb").unlink()
    build(packages, "de", {"../elsewhere.html": "nothing"})
    with pytest.raises(UserError, match=r"libreoffice-help-de_1_all.deb has no help pages"):
        text_files(find_files("libreoffice-help", packages, EN_DE), tmp_path / "text")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local repository, and an apt that uses only this one."""
    folder, state = tmp_path / "repository", tmp_path / "apt"
    folder.mkdir()
    for each in ("lists/partial", "cache/archives/partial", "etc"):
        (state / each).mkdir(parents=True)
    (state / "sources").write_text(f"deb [trusted=yes] file:{folder} ./\n")
    (state / "status").touch()
    settings = {
        "Dir::State": state,
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "Dir::Etc": state / "etc",
        "Dir::Etc::SourceList": state / "sources",
        "Dir::Etc::SourceParts": "-",
        "APT::Sandbox::User": "root",
    }
    (state / "conf").write_text("".join(f'{key} "{value}";\n' for key, value in settings.items()))
    monkeypatch.setenv("APT_CONFIG", str(state / "conf"))
    return folder


def publish(repository: Path, languages: tuple[str, ...]) -> None:
    entries = []
    for language in languages:
        file = build(repository, language, help_pages()[language])
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        entries.append(
            f"Package: {PACKAGES[language]}\nVersion: 1\nArchitecture: all\nFilename: ./{file.name}\n"
            f"Size: {file.stat().st_size}\nSHA256: {digest}\nDescription: help\n"
        )
    (repository / "Packages").write_text("\n".join(entries))


@debian
def test_apt_downloads_what_is_missing(repository: Path, tmp_path: Path) -> None:
    publish(repository, ("en-US", "de"))
    corpora = tmp_path / "corpora"
    corpora.mkdir()
    assert obtain("libreoffice-help", corpora, EN_DE)  # apt has no lists yet: they are fetched on the way
    files = find_files("libreoffice-help", corpora, EN_DE)
    assert {path.parent for path in files.paths().values()} == {corpora / "libreoffice-help-en-de"}
    assert not obtain("libreoffice-help", corpora, EN_DE)
    assert not obtain("libreoffice-help", corpora, ("de", "en"))
    assert len(lines(text_files(files, tmp_path / "text")["train"].source)) == 5


@debian
def test_a_download_that_fails_leaves_nothing(repository: Path, tmp_path: Path) -> None:
    publish(repository, ("en-US",))
    corpora = tmp_path / "corpora"
    corpora.mkdir()
    with pytest.raises(UserError, match=r"apt-get download .* failed: .*package libreoffice-help-de"):
        obtain("libreoffice-help", corpora, EN_DE)
    assert not list(corpora.iterdir())


def test_without_apt_the_recipe_ends_with_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    options = ["--data", str(tmp_path), "--runs", str(tmp_path / "runs"), "--stage", "prepare"]
    assert main(["suite", "run", "libreoffice-help.en-de", *options]) == 2
    said = capsys.readouterr().err
    assert "there is no apt-get on this machine" in said
    assert "put the packages libreoffice-help-en-us and libreoffice-help-de into" in said
    assert not list(tmp_path.iterdir())


@debian
def test_without_dpkg_a_package_cannot_be_read(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = find_files("libreoffice-help", packages, EN_DE)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="there is no dpkg-deb on this machine"):
        text_files(files, tmp_path / "text")


@debian
def test_no_space_left_is_named_and_leaves_nothing(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    files = find_files("libreoffice-help", packages, EN_DE)
    monkeypatch.setattr("disco_mt.data.sources.libreoffice_help.write_pairs", full)
    with pytest.raises(UserError, match=r"cannot write .*text: No space left on device"):
        text_files(files, tmp_path / "text")
    assert not (tmp_path / "text").exists()
    assert not list(tmp_path.glob(".text*"))
