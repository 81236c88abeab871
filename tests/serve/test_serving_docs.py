"""docs/serving-*.md: every command and every Python example runs, and prints what the page shows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from doc_examples import API, MODEL, OPERATIONS, SERVER, Example, asked, blocks, shape
from serving import address, live

from disco_mt.cli.serve import serve
from disco_mt.engine.select import EngineOptions
from disco_mt.serve.limits import Limits
from disco_mt.serve.models import Models
from disco_mt.serve.service import Service
from small_model import Small

OPTIONS = OPERATIONS.read_text(encoding="utf-8")
TEXT = API.read_text(encoding="utf-8") + OPTIONS
EXAMPLES = [example for block in blocks(TEXT) for example in block]
PYTHON = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def server(models: Models) -> Iterator[str]:
    with live(Service(models)) as running:
        yield "{}:{}".format(*address(running))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.command[:60])
def test_commands_answer_as_shown(example: Example, server: str, small: Small) -> None:
    assert example.output, "python tests/serve/doc_examples.py MODEL writes it"
    found = asked(example.command, server, str(small.disco))
    if "/metrics" in example.command:
        assert re.findall(r"^disco_(?!requests)\w+", found, re.MULTILINE) == re.findall(
            r"^disco_(?!requests)\w+", example.output, re.MULTILINE
        )
    else:
        assert shape(found) == shape(example.output)


@pytest.mark.parametrize("code", PYTHON, ids=["pins", "libretranslatepy"])
def test_python_examples(code: str, server: str, small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    code = code.replace(SERVER, server).replace(f'"{MODEL}"', repr(str(small.disco)))
    exec(compile(code, str(API), "exec"), {})
    assert capsys.readouterr().out


def test_every_option_is_there_with_its_default() -> None:
    limits = {name: getattr(Limits(), name) for name in Limits.__dataclass_fields__}
    engine = EngineOptions.__dataclass_fields__
    for name in {*serve.__annotations__, *limits, *engine} - {"limits", "return"}:
        assert f"`--{name.replace('_', '-')}`" in OPTIONS, name
    for name, value in limits.items():
        (line,) = re.findall(rf"^\| .*`--{name.replace('_', '-')}`.*$", OPTIONS, re.MULTILINE)
        assert re.search(rf"(?<![\d.]){value:g}(?![\d.])", line), line
