"""The best number of threads for one sentence at a time: measured once per model size, then cached."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, replace

import torch

from disco_mt.core.machine import cores, remembered
from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.decoding.options import DecodingOptions
from disco_mt.engine.incremental import IncrementalEngine
from disco_mt.engine.runtime import Runtime
from disco_mt.engine.skipping import Driven, Structure
from disco_mt.nn.config import ModelConfig
from disco_mt.systems.disco.model import DisCo

MakeRuntime = Callable[[DisCo, str, int], Runtime]
"""(model, precision, threads) -> runtime."""

_WORDS = 20  # in the test sentence
_REPEATS = 3
_OPTIONS = DecodingOptions("easy-first")


def calibrated_threads(model: DisCo, precision: str, arithmetic: str, make_runtime: MakeRuntime) -> int:
    """The fastest number of threads for one sentence at a time, or OMP_NUM_THREADS if it is set.

    arithmetic: the library that computes in this precision on this machine.
    """
    if os.environ.get("OMP_NUM_THREADS", "").isdecimal():
        return max(1, int(os.environ["OMP_NUM_THREADS"]))
    most = cores()
    if most == 1:
        return 1
    question = f"threads {precision} {arithmetic} {asdict(_size(model.config))}"
    return int(remembered(question, lambda: _fastest(model, precision, make_runtime, most)))


def _size(config: ModelConfig) -> ModelConfig:
    """The config without options that do not affect the time."""
    return replace(config, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)


def _fastest(model: DisCo, precision: str, make_runtime: MakeRuntime, most: int) -> int:
    choices: list[int] = [2**power for power in range(most.bit_length()) if 2**power < most] + [most]
    before = torch.get_num_threads()
    longest = model.config.longest_source
    times = {threads: _seconds(make_runtime(model, precision, threads), longest) for threads in choices}
    torch.set_num_threads(before)
    return min(choices, key=lambda threads: times[threads])


def _seconds(runtime: Runtime, longest_source: int) -> float:
    """The best of a few runs on one sentence, after a warm-up."""
    words = min(_WORDS, runtime.longest_target)
    engine = IncrementalEngine(runtime, skipping=Driven(Structure.fixed((words,) * 5, (1.0, 0.95, 0.5))))
    times = []
    for _ in range(1 + _REPEATS):
        start = time.perf_counter()
        list(engine.finished([[NUM_SPECIAL] * min(words, longest_source)], _OPTIONS))
        times.append(time.perf_counter() - start)
    return min(times[1:])
