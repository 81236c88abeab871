"""Time, one sentence at a time, as the paper measures it: model loaded -> last sentence translated.

Tokenisation counts. All systems take turns on the same sentences, in another order in every repeat, so that
whatever else the machine does meets all of them. The median over repeats stands for a sentence.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import TypeVar

import numpy as np
import torch

from disco_mt.experiments.decode import Decoding, Lab
from disco_mt.experiments.judge import Interval, time_ratio

Item = TypeVar("Item")

WARM_UP = 3  # sentences before the clock starts, each system
BUSY = 0.5  # load average before this process began, above which times are doubtful


@dataclass(frozen=True)
class Timing:
    """seconds[label][repeat][sentence]."""

    seconds: dict[str, list[list[float]]]
    load: float  # before this process began

    def sentences(self, label: str) -> list[float]:
        """The median over repeats of each sentence."""
        return [median(times) for times in zip(*self.seconds[label], strict=True)]

    def milliseconds(self, label: str) -> tuple[float, float, float]:
        """Per sentence: median over repeats, lowest, highest."""
        totals = [1000 * sum(repeat) / len(repeat) for repeat in self.seconds[label]]
        return median(totals), min(totals), max(totals)

    def percentiles(self, label: str) -> tuple[float, float]:
        """p50 and p90 over sentences, in milliseconds."""
        p50, p90 = np.quantile(self.sentences(label), [0.5, 0.9])
        return 1000 * float(p50), 1000 * float(p90)

    def speedup(self, label: str, over: str, samples: int = 1000) -> Interval:
        """Time of `over` divided by time of `label`."""
        return time_ratio(self.sentences(over), self.sentences(label), samples)

    def notes(self) -> tuple[str, ...]:
        """The clock and the machine, and a warning where the machine was busy."""
        some = next(iter(self.seconds.values()))
        clock = (
            f"Clock: from text to text, one sentence at a time, {len(some[0])} sentences evenly spread over "
            f"the test set, {len(some)} interleaved repeats; median over repeats, lowest and highest in "
            f"brackets. {torch.get_num_threads()} thread(s), float32, torch {torch.__version__}, "
            f"{platform.machine()}."
        )
        return (clock, *([_warning(self.load)] if self.load > BUSY else []))


def measure_times(lab: Lab, decodings: dict[str, Decoding], sentences: int, repeats: int) -> Timing:
    """Time every system on the same sentences."""
    if lab.load > BUSY:
        print(f"disco: warning: {_warning(lab.load)}", file=sys.stderr)
    texts = spread(lab.sources("test"), sentences)
    for decoding in decodings.values():
        _pass(lab, decoding, texts[:WARM_UP])
    seconds: dict[str, list[list[float]]] = {label: [] for label in decodings}
    labels = list(decodings)
    for repeat in range(repeats):
        turn = repeat % len(labels)
        for label in labels[turn:] + labels[:turn]:
            seconds[label].append(_pass(lab, decodings[label], texts))
    return Timing(seconds, lab.load)


def spread(texts: Sequence[Item], number: int) -> list[Item]:
    """So many texts at even distances: lengths as in the whole."""
    number = min(number, len(texts))
    return [texts[place * len(texts) // number] for place in range(number)]


def _pass(lab: Lab, decoding: Decoding, texts: Sequence[str]) -> list[float]:
    translator, options, seconds = lab.translator(decoding), asdict(decoding.options), []
    for text in texts:
        started = time.perf_counter()
        translator.translate([text], **options)
        seconds.append(time.perf_counter() - started)
    return seconds


def _warning(load: float) -> str:
    return (
        f"the machine was busy (load average {load:.1f} before the start, {os.cpu_count()} cores): ratios "
        "may hold, absolute times do not; measure again when nothing else runs"
    )
