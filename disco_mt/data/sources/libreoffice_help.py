"""The help of LibreOffice, which Debian packages in many languages: software manuals, free (MPL-2.0).

The pages of two languages have the same file names and ids, so paragraphs are aligned by (page, id, nth
occurrence). A paragraph with as many sentences as its translation gives sentence pairs.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

from disco_mt.core.errors import UserError
from disco_mt.data.sources import debian
from disco_mt.data.sources.files import (
    Languages,
    Pair,
    SourceFiles,
    downloads_folder,
    draw,
    only,
    write_pairs,
)
from disco_mt.data.sources.folders import folder_names
from disco_mt.text.lines import letters, read_lines
from disco_mt.text.sentences import split_sentences

PACKAGES = {
    "en": "libreoffice-help-en-us",
    "de": "libreoffice-help-de",
    "fr": "libreoffice-help-fr",
    "zh": "libreoffice-help-zh-cn",
}
ONE_PAGE_IN = 25  # is held out for validation, and another for the test
LEAST_WORDS = 3  # of an English sentence: shorter ones are the names of menus, keys and functions

_NAME: Final = "libreoffice-help"
_WORD = re.compile("[A-Za-z]+")

# Of the HTML pages
_TEXT = {"p", "h1", "h2", "h3", "h4", "h5", "h6"}
_CODE = {"code", "codeintable", "smathcode"}  # classes of paragraphs that are not translated
_OTHER_SYSTEM = "MAC"  # class of text that only a Mac shows, next to that of other systems
_EMPTY = {"br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}  # have no end tag

Key = tuple[str, int]  # the id of an element, and how often it occurred before on the page


def find_packages(folder: Path | None, languages: Languages) -> SourceFiles:
    """The two packages in the folder of the corpus, or in `folder` itself."""
    _check(languages)
    here = _folder(folder, languages)
    packages = {language: debian.package(here, PACKAGES[language]) for language in languages}
    return SourceFiles(_NAME, languages, raw=packages)


def obtain_packages(folder: Path | None, languages: Languages) -> bool:
    """Download the packages, unless their folder exists; returns whether that was needed."""
    _check(languages)
    if _folder(folder, languages).is_dir():
        return False
    debian.download([PACKAGES[language] for language in languages], _new_folder(folder, languages))
    return True


def write_splits(files: SourceFiles, directory: Path) -> None:
    """Write the three splits as text files. Whole pages are held out, without sentences that are in train.

    Pages are held out by their names, so they are the same in every version and language.
    """
    target = next(language for language in files.languages if language != "en")
    splits: dict[str, list[Pair]] = {"train": [], "valid": [], "test": []}
    for page, pairs in _pages(files.raw["en"], files.raw[target], target):
        splits[split_of(page)] += pairs
    seen: set[str] = set()
    for split, pairs in splits.items():
        kept = [*_unseen(pairs, seen)] if split != "train" else list(dict.fromkeys(pairs))
        if not kept:
            raise UserError(f"the packages of {_NAME} have no sentence pairs for {split}: are they empty?")
        seen |= {letters(english) for english, _ in kept}
        swapped = files.languages[0] != "en"
        write_pairs(directory, split, files.languages, (pair[::-1] if swapped else pair for pair in kept))


def _check(languages: Languages) -> None:
    fits = "en" in languages and len({*languages}) == 2 and PACKAGES.keys() >= {*languages}
    only(languages, fits, f"{_NAME} has en with one of {', '.join(list(PACKAGES)[1:])}")


def _folder(folder: Path | None, languages: Languages) -> Path:
    """The folder with the packages, or the one for them if there is none."""
    if folder is not None and not folder.is_dir():
        raise UserError(f"there is no folder {folder}: give the folder of the corpus {_NAME} with --data")
    around = downloads_folder(folder)
    own = [around / name for name in (_new_folder(folder, languages).name, *folder_names(_NAME, languages))]
    if folder is not None and any(folder.glob(f"{_NAME}-*.deb")):
        own.append(folder)
    return next((path for path in own if path.is_dir()), own[0])


def _new_folder(folder: Path | None, languages: Languages) -> Path:
    """One folder per language pair: both packages have the same version, and both directions share them."""
    other = next(language for language in languages if language != "en")
    return downloads_folder(folder) / f"{_NAME}-en-{other}"


def _pages(english: Path, other: Path, language: str) -> Iterator[tuple[str, list[Pair]]]:
    """Every page that both packages have, with its sentence pairs."""
    with tempfile.TemporaryDirectory() as temporary:
        roots = [
            _text_root(debian.unpack(package, Path(temporary) / side), package)
            for side, package in (("en", english), ("other", other))
        ]
        for path in sorted(roots[0].rglob("*.html")):
            page = path.relative_to(roots[0])
            if (roots[1] / page).is_file():
                sides = [paragraphs("\n".join(read_lines(root / page))) for root in roots]
                yield page.as_posix(), [*_sentences(sides[0], sides[1], language)]


def _text_root(unpacked: Path, package: Path) -> Path:
    roots = [*unpacked.glob("usr/share/libreoffice/help/*/text")]
    if len(roots) != 1:
        raise UserError(
            f"{package} has no help pages: expected usr/share/libreoffice/help/LANGUAGE/text in it"
        )
    return roots[0]


def _sentences(english: dict[Key, str], other: dict[Key, str], language: str) -> Iterator[Pair]:
    """Sentence pairs of common paragraphs, in the order of the English page."""
    for key in filter(other.__contains__, english):
        sides = split_sentences(english[key], "en"), split_sentences(other[key], language)
        if len(sides[0]) == len(sides[1]):
            yield from filter(_is_translation, zip(*sides, strict=True))


def _is_translation(pair: Pair) -> bool:
    """Is it a sentence, and is the other side a translation rather than the same English?"""
    return pair[0] != pair[1] and len(_WORD.findall(pair[0])) >= LEAST_WORDS


def split_of(page: str) -> str:
    """The split of a page, which depends only on its name."""
    number = int.from_bytes(draw(page)[:4]) % ONE_PAGE_IN
    return {0: "valid", 1: "test"}.get(number, "train")


def _unseen(pairs: Iterable[Pair], seen: set[str]) -> Iterator[Pair]:
    """The first translation of each English sentence that is new."""
    new: set[str] = set()
    for english, other in pairs:
        key = letters(english)
        if key not in seen and key not in new:
            new.add(key)
            yield english, other


def paragraphs(page: str) -> dict[Key, str]:
    """The text of paragraphs and headings with an id, white space collapsed, without code."""
    parser = _Parser()
    parser.feed(page)
    parser.close()
    before: Counter[str] = Counter()
    result: dict[Key, str] = {}
    for name, text in parser.found:
        if text:
            result[name, before[name]] = text
        before[name] += 1  # empty ones count, as they do in the other language
    return result


class _Parser(HTMLParser):
    """Collects the text of the elements of interest, without what only a Mac shows."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._name: str | None = None  # of the current element
        self._text: list[str] = []
        self._hidden = 0  # depth inside an element that is left out

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        classes = (attributes.get("class") or "").split()
        if self._hidden or _OTHER_SYSTEM in classes:
            self._hidden += tag not in _EMPTY
        elif tag in _TEXT:
            self._end()
            self._name = None if _CODE & {*classes} else attributes.get("id")
        elif tag == "br":
            self._text.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            self._hidden -= tag not in _EMPTY
        elif tag in _TEXT:
            self._end()

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._text.append(data)

    def _end(self) -> None:
        if self._name:
            self.found.append((self._name, " ".join("".join(self._text).split())))
        self._name, self._text = None, []
