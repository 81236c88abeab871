"""The core from end to end: text, dataset, a tiny DisCo trained by the command line, and its score."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from disco_mt.cli import main
from disco_mt.data.phrasebook import write_phrasebook


def test_a_tiny_disco_learns_the_phrasebook(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, data, run, model = (str(tmp_path / name) for name in ("text", "data", "run", "model"))
    write_phrasebook(Path(text), valid=50, test=100)
    held_out = [
        part
        for split in ("valid", "test")
        for part in (f"--{split}-source", f"{text}/{split}.en", f"--{split}-target", f"{text}/{split}.de")
    ]
    languages = ["--source-language", "en", "--target-language", "de"]
    training = ["--source", f"{text}/train.en", "--target", f"{text}/train.de", "--vocabulary-size", "2000"]
    assert main(["prepare", *training, *languages, *held_out, "--out", data, "--quiet"]) == 0
    steps = ["--training.max-steps", "800", "--training.dev-every", "400", "--quiet"]
    assert main(["train", "phrasebook.disco", "--data", data, "--out", run, "--threads", "1", *steps]) == 0
    assert main(["average", run, "--out", model, "--number", "1"]) == 0
    capsys.readouterr()
    references = ["--source", f"{text}/test.en", "--references", f"{text}/test.references.tsv"]
    assert main(["evaluate", "--model", model, *references, "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bleu"] >= 60  # 70.8 when it was written
    assert found["steps"] < 5
