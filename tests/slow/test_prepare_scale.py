"""Ten million pairs: prepared, iterated and trained on under 1.5 GB resident; training begins within 10 s.

Every step is a command in processes of its own, watched from outside.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from disco_mt.training.rundir import read_log

PAIRS = 10_000_000
WORDS = 200_000  # distinct words of each language, by Zipf's law
RESIDENT = 1500  # megabytes
TINY = """
[model]
kind = "disco"
width = 16
encoder = { layers = 1, heads = 2, hidden = 32 }
decoder = { layers = 1, heads = 2, hidden = 32 }
[training]
batch_tokens = 1024
max_tokens = 1024
max_steps = 3
log_every = 1
"""


def generate(path: Path, lengths: np.ndarray, seed: int) -> Path:
    """Sentences out of a long text of invented words; the frequent words are short, as in any language."""
    random = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxzäöü"))
    words = ["".join(random.choice(letters[:27], 2 + int(np.log2(rank + 1)) // 2)) for rank in range(WORDS)]
    text = [words[rank] for rank in np.minimum(random.zipf(1.2, 3_000_000), WORDS) - 1]
    starts = random.integers(0, len(text) - lengths.max(), len(lengths))
    with path.open("w", encoding="utf-8") as stream:
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            stream.write(" ".join(text[start : start + length]) + ".\n")
    return path


@dataclass
class Peak:
    """The most that was resident at a time, in megabytes: of the process itself, and with all below it.

    What processes share counts for each of them.
    """

    own: float = 0.0
    together: float = 0.0
    seconds: float = 0.0
    first: float = 0.0  # seconds until the first update of a training was logged


def resident(process: int) -> list[float]:
    """Megabytes of a process and of each below it; one that has just ended has none."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (OSError, IndexError):
        return [0.0]
    below = [size for child in children for size in resident(int(child))]
    return [pages * os.sysconf("SC_PAGE_SIZE") / 1e6, *below]


def watch(process: subprocess.Popen[str], peak: Peak, log: Path) -> None:
    started = time.monotonic()
    while process.poll() is None:
        sizes = resident(process.pid)
        peak.own, peak.together = max(peak.own, sizes[0]), max(peak.together, sum(sizes))
        if not peak.first and any(entry["kind"] == "train" for entry in read_log(log)):
            peak.first = time.monotonic() - started
        time.sleep(0.05)
    peak.seconds = time.monotonic() - started


def run(*command: object, log: Path = Path("none")) -> tuple[str, Peak]:
    """A Python command to its end: what it printed, and how much it needed. log: the directory of a run."""
    arguments = [sys.executable, *map(str, command)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    peak = Peak()
    watcher = threading.Thread(target=watch, args=(process, peak, log))
    watcher.start()
    out, _ = process.communicate(timeout=7200)
    watcher.join()
    assert process.returncode == 0
    return out, peak


def iterate(data: Path) -> int:
    """All batches of an epoch as tensors; returns the target words seen."""
    from disco_mt.data.batches import collate, plan_epoch
    from disco_mt.data.dataset import Dataset

    train = Dataset.open(data).splits["train"]
    plan = plan_epoch(train.source_lengths, train.target_lengths, 8192, seed=1, epoch=1)
    return sum(int(collate(train, indices).target_words) for indices in plan)


def train(folder: Path) -> Peak:
    """A few updates of a tiny model."""
    recipe = folder / "tiny.toml"
    recipe.write_text(TINY)
    options = ["--data", folder / "dataset", "--out", folder / "run", "--quiet", "--threads", 1]
    return run("-m", "disco_mt", "train", recipe, *options, log=folder / "run")[1]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="measures with /proc, which Linux has")
def test_ten_million_pairs(tmp_path: Path) -> None:
    lengths = np.random.default_rng(0).integers(3, 25, PAIRS)
    files = ["--source", generate(tmp_path / "source", lengths, seed=1)]
    files += ["--target", generate(tmp_path / "target", lengths + 1, seed=2)]
    held_out = tmp_path / "valid"
    held_out.write_text("aa bb.\n")
    files += ["--valid-source", held_out, "--valid-target", held_out]
    languages = ["--source-language", "en", "--target-language", "de"]
    report, prepared = run(
        "-m", "disco_mt", "prepare", *files, *languages, "--out", tmp_path / "dataset", "--json", "--quiet"
    )
    made = json.loads(report)["splits"]["train"]
    print(f"prepare: {made}, {prepared}")
    assert made["pairs"] > 0.99 * PAIRS
    assert prepared.together < RESIDENT

    words, iterated = run(__file__, tmp_path / "dataset")
    print(f"iterate: {iterated}")
    assert int(words) == made["target_tokens"]
    assert iterated.together < RESIDENT

    trained = train(tmp_path)
    print(f"train: {trained}")
    assert trained.together < RESIDENT
    assert 0 < trained.first < 10


if __name__ == "__main__":
    print(iterate(Path(sys.argv[1])))
