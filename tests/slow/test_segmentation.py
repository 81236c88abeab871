"""Imported SentencePiece models beside sentencepiece itself: real lines, and hostile Unicode.

It needs DISCO_MODELS, DISCO_DATA, and sentencepiece: in this environment, or in another one, whose
interpreter DISCO_TRANSFORMERS_PYTHON names. Figures are shown with -s.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import random
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from disco_mt.core.special_tokens import SPECIAL_TOKENS, UNK
from disco_mt.text.sentencepiece import SentencePieceModel
from disco_mt.text.tokenizer import Tokenizer

for variable in ("DISCO_MODELS", "DISCO_DATA"):
    if variable not in os.environ:
        pytest.skip(f"{variable} names no folder", allow_module_level=True)
PYTHON = os.environ.get("DISCO_TRANSFORMERS_PYTHON", sys.executable)
if sys.executable == PYTHON and not importlib.util.find_spec("sentencepiece"):
    pytest.skip("sentencepiece is not installed, nor DISCO_TRANSFORMERS_PYTHON set", allow_module_level=True)

LINES = 12_000
MIXTURES = 20_000
RANGES = (
    *((0, 0x250), (0x300, 0x370), (0x600, 0x700), (0x900, 0x97F), (0x1100, 0x1200), (0x2000, 0x2070)),
    *((0x3040, 0x30FF), (0xAC00, 0xAC40), (0xFB00, 0xFB50), (0xFF00, 0xFFF0), (0x1F1E6, 0x1F200)),
    (0x1F600, 0x1F640),
)
FILES = {
    "source": (1, ("sources.tsv.gz", "sources-encyclopedia.tsv.gz")),
    "target": (2, ("translated.tsv.gz", "translated-encyclopedia.tsv.gz")),
}
THEIRS = """
import json, sys, sentencepiece
model = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])
json.dump([model.encode(text, out_type=str) for text in json.load(sys.stdin)], sys.stdout)
"""


def real_lines(side: str) -> list[str]:
    column, names = FILES[side]
    found: list[str] = []
    for name in names:
        path = Path(os.environ["DISCO_DATA"], "general-en-fr", name)
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            found += [line.rstrip("\n").split("\t")[column] for line in islice(lines, LINES // 2)]
    return found


def hostile(number: int) -> list[str]:
    draw = random.Random(1)
    pool = [chr(code) for start, end in RANGES for code in range(start, end)]
    return [
        "".join(
            draw.choice(pool) if draw.random() < 0.5 else draw.choice(" abcdeé,.'")
            for _ in range(draw.randint(0, 25))
        )
        for _ in range(number)
    ]


def different(side: str, texts: list[str], folder: Path) -> list[str]:
    """Texts that come out in other pieces; in theirs an unknown part is its text, in ours <unk>."""
    file = Path(os.environ["DISCO_MODELS"], "opus-mt-en-fr", f"{side}.spm")
    Tokenizer(SentencePieceModel.read(file).backend(), "en", "sentencepiece").save(folder / "tokenizer.json")
    tokenizer = Tokenizer.load(folder / "tokenizer.json", "en", "sentencepiece")
    command = [PYTHON, "-c", THEIRS, str(file)]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    theirs = [[_known(tokenizer, piece) for piece in pieces] for pieces in json.loads(done.stdout)]
    ours = [tokenizer.tokens(ids) for ids in tokenizer.encode_batch(texts)]
    return [text for text, one, two in zip(texts, ours, theirs, strict=True) if one != two]


def _known(tokenizer: Tokenizer, piece: str) -> str:
    return piece if tokenizer.backend.token_to_id(piece) is not None else SPECIAL_TOKENS[UNK]


@pytest.mark.parametrize("side", ["source", "target"])
def test_real_lines_are_segmented_alike(side: str, tmp_path: Path) -> None:
    lines = real_lines(side)
    assert len(lines) == LINES
    assert different(side, lines, tmp_path) == []


@pytest.mark.parametrize("side", ["source", "target"])
def test_hostile_unicode_differs_rarely(side: str, tmp_path: Path) -> None:
    """`tokenizers` normalises character by character where sentencepiece looks for the longest match."""
    found = different(side, hostile(MIXTURES), tmp_path)
    print(
        f"\n{side}: {len(found)} of {MIXTURES} mixtures differ, such as {[ascii(text) for text in found[:3]]}"
    )
    assert len(found) < MIXTURES / 20
