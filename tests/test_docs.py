"""The documentation is true: commands run, examples work, anchors exist, the CLI page is up to date.

Files that a reader would bring (train.en, test.de ...) are a small phrasebook; trainings are cut short. The
pages about serving have tests of their own, with a server: tests/serve/.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from disco_mt.cli import VERBS, main
from disco_mt.data.phrasebook import write_phrasebook
from tiny_marian import write_marian
from tools.cli_reference import PAGE, SUBVERBS, help_of, page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
TRAINING = DOCS / "training.md"
CONVERSION = DOCS / "conversion.md"
MIGRATION = DOCS / "migration-0.2.md"  # names what is gone
PAGES = [
    README,
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.glob("*.md")),
    *sorted(DOCS.glob("systems/*.md")),
]
SERVING = sorted(DOCS.glob("serving*.md"))
RUN = [each for each in PAGES if each not in (*SERVING, CONVERSION, PAGE)]
SHORT = ("--training.max-steps", "3", "--training.dev-every", "3", "--training.max-epochs", "0")
SHORT += ("--training.cooldown-steps", "0", "--training.batch-tokens", "512", "--training.max-tokens", "512")
QUICK = (["list"], ["show"])  # of a suite
LONG = ("demo", "experiment", "serve", "suite")  # minutes, hours, or until they are stopped: only looked at


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def commands(path: Path) -> list[list[str]]:
    """Lines that begin with `disco` in the shell blocks of a page."""
    lines = [line for block in blocks(path, "sh") for line in block.split("\n")]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("disco ")]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages name."""
    monkeypatch.chdir(tmp_path)
    write_phrasebook(tmp_path / "text", train=300, valid=4, test=4, translations=1)
    for file in (tmp_path / "text").iterdir():
        file.rename(tmp_path / file.name)
    return tmp_path


@pytest.mark.parametrize("path", [each for each in RUN if commands(each)], ids=name)
def test_commands_run(path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = commands(TRAINING) if path == README else []  # the same commands need not run twice
    for arguments in commands(path):
        if arguments in elsewhere or (arguments[0] in LONG and arguments[1:2] not in QUICK):
            continue
        short = SHORT if arguments[0] == "train" else ()
        assert main([*arguments, *short]) == 0, (arguments, capsys.readouterr().err)


def test_the_commands_of_the_conversion_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a teacher of random weights, as large as an OPUS-MT model, in the place of the one on the hub."""
    monkeypatch.chdir(tmp_path)
    sizes = {"d_model": 512} | {f"{side}_layers": 6 for side in ("encoder", "decoder")}
    sizes |= {f"{side}_attention_heads": 8 for side in ("encoder", "decoder")}
    sizes |= {f"{side}_ffn_dim": 2048 for side in ("encoder", "decoder")}
    teacher = write_marian(tmp_path / "opus", config=sizes)
    for file, lines in {"mono.en": 40, "dev.en": 2, "dev.fr": 2}.items():
        (tmp_path / file).write_text("the cat\nthe cats\n" * lines, encoding="utf-8")
    for arguments in commands(CONVERSION):
        own = [str(teacher) if word.startswith("Helsinki-NLP/") else word for word in arguments]
        short = [*SHORT, "--training.precision", "fp32"] if own[0] == "train" else []
        if own[0] == "translate":  # random weights write nothing that could be learnt from
            (tmp_path / "mono.fr").write_text("le chat\nles chats\n" * 40, encoding="utf-8")
            continue
        assert main([*own, *short]) == 0, own


@cache
def _help(verb: str, subverb: str) -> str:
    return help_of([verb]) + (help_of([verb, subverb]) if subverb else "")


@pytest.mark.parametrize("path", [each for each in PAGES if each not in (MIGRATION, PAGE)], ids=name)
def test_every_command_names_a_verb_and_its_options(path: Path) -> None:
    """Also those that are not run: in indented blocks and in running text."""
    text = re.sub(r"\s+", " ", path.read_text(encoding="utf-8"))
    for verb, rest in re.findall(r"`disco ([a-z-]+)((?: [^`]*)?)`", text):
        _check_named(verb, rest.split(), name(path))
    for arguments in commands(path):
        _check_named(arguments[0], arguments[1:], name(path))


def _check_named(verb: str, rest: list[str], where: str) -> None:
    assert verb in VERBS, (where, verb)
    subverb = rest[0] if rest and rest[0] in SUBVERBS.get(verb, ()) else ""
    for option in (word for word in rest if word.startswith("--") and word != "--help"):
        assert re.search(rf"{re.escape(option)}\b", _help(verb, subverb)), (where, verb, option)


@pytest.fixture
def registered() -> Iterator[None]:
    """What an example registers is gone afterwards."""
    from disco_mt.systems import SYSTEMS

    records: list[dict[str, Any]] = [SYSTEMS, *(each.decoders for each in SYSTEMS.values())]
    records += [each.objectives for each in SYSTEMS.values()]
    before = [dict(each) for each in records]
    yield
    for now, earlier in zip(records, before, strict=True):
        now.clear()
        now.update(earlier)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    "path", [each for each in PAGES if blocks(each, "python") and each not in SERVING], ids=name
)
def test_python_examples_run(path: Path) -> None:
    variables: dict[str, object] = {}
    for block in blocks(path, "python"):
        exec(compile(block, name(path), "exec"), variables)


def test_code_anchors_exist() -> None:
    """`folder/path.py` and `path.py:symbol` in the pages: the module has the symbol, a class its method."""
    missing = []
    for path in set(PAGES) - {MIGRATION}:
        anchors = re.findall(r"`((?:\w+/)*\w+\.py)(?::([\w.]+))?`", path.read_text(encoding="utf-8"))
        for file, symbol in anchors:
            if "/" not in file and not symbol:
                continue
            module = ROOT / file if (ROOT / file).is_file() else ROOT / "disco_mt" / file
            if not module.is_file() or (symbol and symbol not in symbols(module)):
                missing.append(f"{name(path)}: {file}:{symbol}")
    assert not missing


@cache
def symbols(module: Path) -> set[str]:
    """What a module defines: functions, classes, their methods, constants."""
    found = set()
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
        if isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_every_part_of_the_paper_is_in_the_table() -> None:
    text = (DOCS / "paper-to-code.md").read_text(encoding="utf-8")
    parts = [f"Figure {number}" for number in range(1, 7)] + [f"Table {number}" for number in range(4, 8)]
    for part in [
        *parts,
        "Tables 1, 2, 3",
        "Algorithm 1",
        *(f"| {section} |" for section in ("2.1", "2.5", "3.1", "3.3")),
    ]:
        assert part in text, part


def test_cli_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python tools/cli_reference.py"


def test_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.split()) <= 600
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("https://") or (ROOT / link).exists(), link
