"""The requests of the serving pages in docs/, and what a real server answers.

python tests/serve/doc_examples.py MODEL     writes the answers into the pages
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
API, OPERATIONS = ROOT / "docs" / "serving-api.md", ROOT / "docs" / "serving-operations.md"
SERVER = "localhost:8000"  # as the pages call it
MODEL = "en-de"


@dataclass(frozen=True)
class Example:
    """A command line and the output that the page shows."""

    command: str
    output: str


def blocks(page: str) -> list[list[Example]]:
    """The console blocks of a page: commands begin with "$ ", what follows is their output."""
    found = re.findall(r"^```console\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    return [[_example(part) for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]] for block in found]


def _example(part: str) -> Example:
    command, _, output = part.partition("\n")
    return Example(command, output)


def asked(command: str, server: str, model: str) -> str:
    """What a command prints, against the server and the model that are really there."""
    real = command.replace(SERVER, server).replace(f"--model {MODEL}", f"--model {model}")
    real = re.sub(r"^disco ", f"{sys.executable} -m disco_mt ", real)
    done = subprocess.run(["bash", "-c", real], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.rstrip("\n") + "\n"


def shape(text: str) -> object:
    """What must be alike in any two answers: keys and types of JSON, names of events and metrics."""
    try:
        return _shape(json.loads(text))
    except ValueError:
        names = re.findall(r"^(?:event: \w+|data: \{\"\w+|disco_\w+(?:\{path=\"[^\"]+)?)", text, re.MULTILINE)
        return sorted(set(names)) or "text"


def _shape(value: object) -> object:
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_shape(value[0])] if value else []
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )


def rewritten(page: str, server: str, model: str) -> str:
    """The page with the answers of this server."""
    for block in blocks(page):
        before = "".join(f"$ {each.command}\n{each.output}" for each in block)
        after = "".join(f"$ {each.command}\n{asked(each.command, server, model)}" for each in block)
        page = page.replace(f"```console\n{before}```", f"```console\n{after}```")
    return page


def main() -> None:
    """Ask everything, and write it down."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.serving import serving

    (model,) = sys.argv[1:]
    with serving(model, 1) as (port, _):
        for page in (API, OPERATIONS):
            text = rewritten(page.read_text(encoding="utf-8"), f"127.0.0.1:{port}", model)
            page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
