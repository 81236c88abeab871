"""A system from outside, in one file (copier.py): every verb works with it, and nothing else knows it."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

import disco_mt

PLUGIN = Path(__file__).parent / "copier.py"
WORDS = [
    "the",
    "a",
    "house",
    "child",
    "book",
    "tree",
    "old",
    "new",
    "red",
    "blue",
    "sees",
    "finds",
    "runs",
    "over",
    "under",
]
RECIPE = """
[model]
kind = "copier"
width = 32
encoder = {layers = 1, heads = 2, hidden = 32}
decoder = {layers = 1, heads = 2, hidden = 32}
tying = "none"
max_source = 40
max_target = 40
length_classes = 40
[objective]
label_smoothing = 0.0
[training]
max_steps = 120
warmup_steps = 10
learning_rate = 0.02
batch_tokens = 600
max_tokens = 600
dev_every = 60
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


def disco(*arguments: object, plugin: bool = True) -> subprocess.CompletedProcess[str]:
    extra = ("--plugin", str(PLUGIN)) if plugin else ()
    command = [sys.executable, "-m", "disco_mt", *extra, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def done(*arguments: object) -> str:
    found = disco(*arguments)
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text whose translation is itself, a recipe, a trained and averaged model."""
    folder, draw = tmp_path_factory.mktemp("copier"), random.Random(1)
    for name, number in (("train", 400), ("valid", 20), ("test", 20)):
        lines = [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(number)]
        for language in ("en", "de"):
            (folder / f"{name}.{language}").write_text("\n".join(lines) + "\n")
    (folder / "copier.toml").write_text(RECIPE)
    files = [f"--{side}={folder}/train.{tongue}" for side, tongue in (("source", "en"), ("target", "de"))]
    files += [f"--valid-source={folder}/valid.en", f"--valid-target={folder}/valid.de"]
    languages = ("--source-language", "en", "--target-language", "de", "--vocabulary-size", 300)
    done("prepare", *files, *languages, "--out", folder / "data", "--quiet")
    done("train", folder / "copier.toml", "--data", folder / "data", "--out", folder / "run", "--threads", 1)
    done("average", folder / "run", "--out", folder / "model")
    return folder


def test_it_translates_and_is_evaluated(folder: Path) -> None:
    model = ("--model", folder / "model")
    assert done("translate", "the old house sees a tree", *model) == "the old house sees a tree\n"
    files = ("--source", folder / "test.en", "--reference", folder / "test.de")
    assert json.loads(done("evaluate", *model, *files, "--json", "--quiet"))["bleu"] > 99


def test_its_passes_of_different_lengths_are_shown(folder: Path) -> None:
    page, picture = folder / "trace.html", folder / "trace.svg"
    sentence = ("trace", "the old house sees a tree", "--model", folder / "model")
    shown = done(*sentence, "--html", page, "--svg", picture)
    assert "the old house" in " ".join(shown.split())
    assert "<svg" in picture.read_text()
    assert "tree" in page.read_text()
    passes = json.loads(done(*sentence, "--json"))
    assert "tree" in json.dumps(passes)


def test_it_is_timed_beside_others(folder: Path) -> None:
    files = ("--source", folder / "test.en", "--reference", folder / "test.de")
    assert "copy" in done("bench", "--models", folder / "model", *files, "--quick")


def test_it_is_served(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "disco_mt", "--plugin", str(PLUGIN), "serve", "--port", str(port)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([*command, "--model", str(folder / "model")], env=environment)
    try:
        body = json.dumps({"text": "the old house"}).encode()
        address = f"http://127.0.0.1:{port}/v1/translate"
        headers = {"Content-Type": "application/json"}
        for _ in range(600):
            try:
                with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as answer:
                    assert "the old house" in answer.read().decode()
                    break
            except OSError:
                assert process.poll() is None
                time.sleep(0.1)
        else:
            pytest.fail("the server was not ready within a minute")
    finally:
        process.terminate()
        process.wait(20)


def test_without_the_plugin_its_models_are_refused_by_name(folder: Path) -> None:
    refused = disco("translate", "x", "--model", folder / "model", plugin=False)
    assert refused.returncode == 2
    assert "got 'copier'" in refused.stderr
    assert "disco --plugin FILE" in refused.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file"),
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("from disco_mt.systems import SYSTEMS, register\nimport dataclasses\n"
         "register(dataclasses.replace(SYSTEMS['disco'], label='x'))", "already a system 'disco'"),
    ],
)  # fmt: skip
def test_a_plugin_that_cannot_be_used_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "mine.py"
    if content is not None:
        file.write_text(content)
    command = [sys.executable, "-m", "disco_mt", "--plugin", str(file), "translate", "x"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr


def test_no_other_file_knows_it() -> None:
    package = Path(disco_mt.__file__).parent
    assert not [
        path for path in package.rglob("*.py") if "copier" in path.read_text(encoding="utf-8").lower()
    ]
