"""The authors' decoders, token for token, through the command line alone.

DISCO_GOLDEN names a folder with checkpoint.pt, dict.*.txt and golden.jsonl; the small set in tests/data is
always run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from disco_mt.cli.translate import as_dict
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.engine.select import EngineOptions
from disco_mt.translator import Translator

MINI = Path(__file__).parent / "golden-mini"
LARGE = os.environ.get("DISCO_GOLDEN")
FOLDERS = [
    pytest.param(MINI, id="mini"),
    pytest.param(
        Path(LARGE or "."),
        id="DISCO_GOLDEN",
        marks=pytest.mark.skipif(not LARGE, reason="DISCO_GOLDEN is not set to a folder of golden vectors"),
    ),
]


def disco(*arguments: str, text: str = "") -> str:
    """Run the command as a user would."""
    command = [sys.executable, "-m", "disco_mt", *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def golden(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "golden.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """Folder -> model directory, imported once."""
    models: dict[Path, Path] = {}
    for folder in [MINI, *([Path(LARGE)] if LARGE else [])]:
        models[folder] = tmp_path_factory.mktemp("golden") / "model"
        source, target = _languages(folder)
        disco(
            *("import-fairseq", "--checkpoint", str(folder / "checkpoint.pt")),
            *("--source-dict", str(folder / f"dict.{source}.txt")),
            *("--target-dict", str(folder / f"dict.{target}.txt"), "--out", str(models[folder])),
        )
    return models


def _languages(folder: Path) -> tuple[str, str]:
    """Source and target language, from the checkpoint itself."""
    import argparse

    import torch

    with torch.serialization.safe_globals([argparse.Namespace]):
        arguments = torch.load(folder / "checkpoint.pt", weights_only=True)["args"]
    return arguments.source_lang, arguments.target_lang


def decoded(model: Path, folder: Path, strategy: str, iterations: int) -> list[dict[str, Any]]:
    text = "".join(" ".join(entry["source"]) + "\n" for entry in golden(folder))
    options = ("--strategy", strategy, "--iterations", str(iterations), "--length-beam", "5")
    output = disco("translate", "--model", str(model), "--tokens", "--json", *options, text=text)
    results = [json.loads(line) for line in output.split("\n") if line]
    assert len(results) == len(golden(folder))
    return results


@pytest.mark.parametrize("folder", FOLDERS)
def test_easy_first(folder: Path, imported: dict[Path, Path]) -> None:
    for entry, found in zip(golden(folder), decoded(imported[folder], folder, "easy-first", 10), strict=True):
        assert [length + 1 for length in found["lengths"]] == entry["lengths_with_eos"]
        assert found["length_log_probabilities"] == pytest.approx(entry["length_logprobs"], abs=1e-4)
        wanted = entry["algorithm_1_T10"]
        tie = found["tokens"] != wanted["tokens"] and has_tie(found["passes"][0])
        ours = without_rounding(imported[folder], entry["source"]) if tie else found
        assert ours["tokens"] == wanted["tokens"]
        assert ours["steps"] == wanted["steps"]
        assert ours["score"] == pytest.approx(wanted["score"], abs=1e-4)
        compare_passes(ours["passes"], entry["easy_first_T10"].get("passes", []))


TIE = 5e-7  # of two probabilities: processors round sums of float32 numbers in different orders


def has_tie(candidates: list[dict[str, Any]]) -> bool:
    """Are two words of a candidate equally easy in the first pass, up to rounding? Their order is open."""
    ordered = [sorted(candidate["probabilities"]) for candidate in candidates]
    return any(b - a < TIE for probabilities in ordered for a, b in pairwise(probabilities))


def without_rounding(model: Path, source: list[str]) -> dict[str, Any]:
    """The same sentence in float64, where there is no such tie."""
    translator = Translator.from_pretrained(model, EngineOptions(engine="reference"))
    translator.model.double()
    options = DecodingOptions("easy-first", iterations=10, length_beam=5)
    text = " ".join(source)
    found = translator.translate(text, options, DecodeRequest(trace=True))
    return dict(json.loads(json.dumps(as_dict(text, found))))


def compare_passes(found: list[Any], wanted: list[dict[str, Any]]) -> None:
    """Every given pass of every candidate: tokens, and probabilities within 1e-4."""
    for ours, theirs in zip(found, wanted, strict=False):
        for candidate, tokens, probabilities in zip(
            ours, theirs["predicted"], theirs["probability"], strict=True
        ):
            assert candidate["tokens"] == tokens
            assert candidate["probabilities"] == pytest.approx(probabilities, abs=1e-4)


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("iterations", [4, 10])
def test_mask_predict(folder: Path, iterations: int, imported: dict[Path, Path]) -> None:
    results = decoded(imported[folder], folder, "mask-predict", iterations)
    for entry, found in zip(golden(folder), results, strict=True):
        wanted = entry[f"mask_predict_T{iterations}"]
        assert found["tokens"] == wanted["tokens"]
        assert found["steps"] == iterations
        assert found["score"] == pytest.approx(wanted["score"], abs=1e-4)
