"""The README's commands for a corpus of one's own, on 20,000 pairs of Tatoeba, English to French.

They run as they stand there, but for the language, and for the number of updates. It needs DISCO_DATA.
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

if "DISCO_DATA" not in os.environ:
    pytest.skip("DISCO_DATA is not set: the folder with tatoeba-en-fr", allow_module_level=True)

README = Path(__file__).parents[2] / "README.md"
TATOEBA = Path(os.environ["DISCO_DATA"], "tatoeba-en-fr")
PAIRS = {"train": 20_000, "valid": 100, "test": 100}
SHORT = ("--training.max-steps", "60", "--training.warmup-steps", "20", "--training.cooldown-steps", "20")
SHORT += ("--training.dev-every", "20")


def commands() -> list[list[str]]:
    """Those of the shell block with `disco prepare`, for French instead of German."""
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    (block,) = [block for block in blocks if "disco prepare" in block]
    joined = block.replace("\\\n", " ")
    french = re.sub(r"\.de\b", ".fr", joined).replace("--target-language de", "--target-language fr")
    return [shlex.split(line, comments=True) for line in french.splitlines() if line.startswith("disco ")]


def test_the_commands_run_on_a_real_corpus(tmp_path: Path) -> None:
    if not TATOEBA.is_dir():
        pytest.skip(f"{TATOEBA} is not there")
    for split, number in PAIRS.items():
        for language in ("en", "fr"):
            name = f"{'dev' if split == 'valid' else split}.{language}.gz"
            with gzip.open(TATOEBA / name, "rt", encoding="utf-8") as lines:
                (tmp_path / f"{split}.{language}").write_text("".join(islice(lines, number)))
    disco = shutil.which("disco") or ""
    start = [disco] if disco else [sys.executable, "-m", "disco_mt"]
    for _, verb, *arguments in commands():
        short = SHORT if verb == "train" else ()
        command = [*start, verb, *arguments, *short]
        done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, (verb, arguments, done.stderr)
        print(done.stdout)
    assert (tmp_path / "my-model" / "config.json").is_file()
