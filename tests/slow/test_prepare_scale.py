"""Two million pairs are prepared and iterated under 1 GB resident, in a process of their own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from disco_mt.data.batches import collate, plan_epoch
from disco_mt.data.dataset import Dataset
from disco_mt.data.prepare import PrepareOptions, prepare

PAIRS = 2_000_000
WORDS = 200_000  # distinct words of each language, by Zipf's law
CHUNK = 20_000


def generate(path: Path, lengths: np.ndarray, seed: int) -> Path:
    """Sentences of invented words; the frequent words are short, as in any language."""
    random = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxzäöü"))
    words = ["".join(random.choice(letters[:27], 2 + int(np.log2(rank + 1)) // 2)) for rank in range(WORDS)]
    with path.open("w", encoding="utf-8") as stream:
        for start in range(0, len(lengths), CHUNK):
            for length in lengths[start : start + CHUNK]:
                ranks = np.minimum(random.zipf(1.2, length), WORDS) - 1
                stream.write(" ".join([words[rank] for rank in ranks]) + ".\n")
    return path


def peak_megabytes() -> float:
    """The largest resident size of this process, plus that of its largest child."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    both = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(both) * unit / 1e6


def prepare_and_iterate(folder: Path) -> dict[str, float]:
    started = time.monotonic()
    lengths = np.random.default_rng(0).integers(3, 25, PAIRS)
    options = PrepareOptions(
        source=generate(folder / "source", lengths, seed=1),
        target=generate(folder / "target", lengths + 1, seed=2),
        out=folder / "dataset",
        source_language="en",
        target_language="de",
    )
    generated = time.monotonic()
    report = prepare(options, quiet=True)
    prepared = time.monotonic()
    train = Dataset.open(options.out).splits["train"]
    tokens = 0
    for indices in plan_epoch(train.source_lengths, train.target_lengths, 8192, seed=1, epoch=0):
        tokens += collate(train, indices).target_words
    return {
        "pairs": report.splits["train"].pairs,
        "vocabulary": report.source_vocabulary_size,
        "tokens": report.splits["train"].target_tokens,
        "iterated": tokens,
        "generate_seconds": generated - started,
        "prepare_seconds": prepared - generated,
        "iterate_seconds": time.monotonic() - prepared,
        "peak_megabytes": peak_megabytes(),
    }


def test_two_million_pairs_under_one_gigabyte(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, __file__, str(tmp_path)], stdout=subprocess.PIPE, text=True, check=True, timeout=3600
    )
    measured = json.loads(ran.stdout)
    print(measured)
    assert measured["pairs"] > 0.99 * PAIRS
    assert measured["iterated"] == measured["tokens"]
    assert measured["peak_megabytes"] < 1000


if __name__ == "__main__":
    print(json.dumps(prepare_and_iterate(Path(sys.argv[1]))))
