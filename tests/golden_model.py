"""Trained models with the authors' own results: the small set in tests/data, and DISCO_GOLDEN if set."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from disco_mt.decoding.results import Hypothesis
from disco_mt.interop.fairseq import import_fairseq
from disco_mt.systems.disco.model import DisCo
from disco_mt.translator import Translator

LARGE = os.environ.get("DISCO_GOLDEN")
FOLDERS = [
    pytest.param(Path(__file__).parent / "golden-mini", id="mini"),
    pytest.param(
        Path(LARGE or "."),
        id="DISCO_GOLDEN",
        marks=pytest.mark.skipif(not LARGE, reason="DISCO_GOLDEN is not set to a folder of golden vectors"),
    ),
]


@dataclass(frozen=True)
class Golden:
    """A model and what is known of it."""

    translator: Translator
    entries: list[dict[str, Any]]

    @staticmethod
    def load(folder: Path, out: Path) -> Golden:
        """Import a folder's checkpoint."""
        import_fairseq(folder / "checkpoint.pt", folder / "dict.en.txt", folder / "dict.de.txt", out)
        lines = (folder / "golden.jsonl").read_text(encoding="utf-8").split("\n")
        return Golden(Translator.from_pretrained(out), [json.loads(line) for line in lines if line])

    @property
    def model(self) -> DisCo:
        model = self.translator.model
        assert isinstance(model, DisCo)
        return model

    @property
    def sources(self) -> list[list[int]]:
        """Source ids without EOS."""
        return [self.translator.text.source.ids(entry["source"]) for entry in self.entries]

    def tokens(self, found: Hypothesis[int]) -> list[str]:
        """A hypothesis as the golden files have it."""
        return list(self.translator.text.target.tokens(found.tokens))
