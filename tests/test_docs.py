"""Every `disco` command in README and docs runs, in the order in which it stands there.

Files that a reader would bring (train.en, test.de ...) are a small phrasebook; trainings are cut short.
serving-*.md have a test of their own, with a server: tests/serve/test_serving_docs.py.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from disco_mt.cli import main
from disco_mt.data.phrasebook import write_phrasebook
from tiny_marian import write_marian

ROOT = Path(__file__).parents[1]
CONVERSION = ROOT / "docs" / "conversion.md"
SERVING = {ROOT / "docs" / f"serving-{part}.md" for part in ("api", "operations")}
OTHERS = {*SERVING, CONVERSION}  # have tests of their own
PAGES = [ROOT / "README.md", *sorted(set((ROOT / "docs").glob("*.md")) - OTHERS)]
SHORT = ("--training.max-steps", "3", "--training.dev-every", "3", "--training.max-epochs", "0")
LONG = ("demo", "experiment", "recipe", "serve")  # minutes, hours, or until they are stopped


def commands(page: Path) -> list[list[str]]:
    """Lines that begin with `disco` in the shell blocks of a page."""
    blocks = re.findall(r"```(?:sh|console)\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.split("\n")]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("disco ")]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages name."""
    monkeypatch.chdir(tmp_path)
    write_phrasebook(tmp_path / "text", train=600, valid=4, test=4, translations=1)
    for file in (tmp_path / "text").iterdir():
        file.rename(tmp_path / file.name)
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_commands_run(page: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in commands(page):
        if arguments[0] in LONG:
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
    for name, lines in {"mono.en": 40, "dev.en": 2, "dev.fr": 2}.items():
        (tmp_path / name).write_text("the cat\nthe cats\n" * lines, encoding="utf-8")
    for arguments in commands(CONVERSION):
        own = [str(teacher) if word.startswith("Helsinki-NLP/") else word for word in arguments]
        short = [*SHORT, "--training.precision", "fp32"] if own[0] == "train" else []
        if own[0] == "translate":  # random weights write nothing that could be learnt from
            (tmp_path / "mono.fr").write_text("le chat\nles chats\n" * 40, encoding="utf-8")
            continue
        assert main([*own, *short]) == 0, own


def test_python_example_of_the_readme_names_what_exists() -> None:
    from disco_mt.decoding.results import Translation
    from disco_mt.translator import Translator

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    for name in re.findall(r"result\.(\w+)", example):
        assert name in {*Translation.__dataclass_fields__, *dir(Translation)}, name
    for name in re.findall(r"(\w+)=", example):
        assert name in Translator.translate.__annotations__, name
