"""A run as JSON: everything that was measured, raw times included. The keys are part of the interface."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from statistics import fmean
from typing import Any

from disco_mt.bench.compare import BEST, PROCESSOR, Ratio, best_threads
from disco_mt.bench.measure import Measured, Result
from disco_mt.bench.work import gflop
from disco_mt.engine.select import arithmetic
from disco_mt.evaluation.quality import Quality
from disco_mt.reporting.timing import latency

FORMAT = 1  # of the JSON


@dataclass(frozen=True)
class About:
    """What the tables are about."""

    title: str
    command: str
    clock: str  # what is measured, in words
    qualities: dict[str, Quality]  # by label, where there are references
    costs: tuple[str, ...] = ()  # what int8 costs in BLEU, in words


def to_json(measured: Measured, found: Sequence[Ratio], words: Sequence[str], about: About) -> dict[str, Any]:
    """Everything, raw times included; the keys are part of the interface (FORMAT)."""
    return {
        "format": FORMAT,
        "title": about.title,
        "command": about.command,
        "clock": about.clock,
        "machine": machine_facts(),
        "load": {**asdict(measured.load), "busy": measured.load.busy},
        "plan": asdict(measured.plan),
        "peak_gflops": {str(threads): peak for threads, peak in measured.peak.items()},
        "systems": [_system_json(measured, result, about) for result in measured.results],
        "ratios": [
            {
                "system": each.system,
                "baseline": each.baseline,
                "threads": {BEST: "best", PROCESSOR: "1, processor time"}.get(each.threads, each.threads),
                **asdict(each.value),
                "tie": each.tie,
            }
            for each in found
        ],
        "verdict": list(words),
    }


def _system_json(measured: Measured, result: Result, about: About) -> dict[str, Any]:
    system, quality = result.system, about.qualities.get(result.system.label)
    known = {
        "label": system.label,
        "model": system.weights.name,
        "kind": system.kind,
        "runtime": system.runtime,
        "precision": system.precision,
        "decoding": system.decoding,
        "died": result.died,
    }
    if result.died:
        return known
    return {
        **known,
        "best_threads": best_threads(result),
        "threads": {
            str(threads): {
                "latency_ms": asdict(latency(times.seconds)),
                "seconds": times.seconds,
                "processor_seconds": times.processor,
                "batch_seconds": {str(size): taken for size, taken in times.batches.items()},
                "gflops": speed(measured, result, threads),
            }
            for threads, times in result.times.items()
        },
        "memory_mb": asdict(result.memory) if result.memory else None,
        "steps": fmean(each.steps for each in result.outcomes),
        "rows": sum(each.rows for each in result.outcomes),
        "plain_rows": sum(each.plain_rows for each in result.outcomes),
        "gflop": mean_gflop(result),
        "quality": asdict(quality) if quality else None,
    }


def mean_gflop(result: Result) -> float:
    """Of a sentence."""
    return fmean(gflop(result.system.weights.config, each) for each in result.outcomes)


def speed(measured: Measured, result: Result, threads: int) -> float:
    """GFLOP/s with one sentence at a time."""
    work = dict(zip(measured.plan.scored, result.outcomes, strict=True))
    config = result.system.weights.config
    done = sum(gflop(config, work[place]) for place in measured.plan.timed)
    return done / (latency(result.times[threads].seconds).mean / 1000 * len(measured.plan.timed))


def machine_facts() -> dict[str, str]:
    """What times depend on."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        **{name: _version(name) for name in ("torch", "ctranslate2", "onnxruntime")},
        "int8 of DisCo": arithmetic("int8"),
    }


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            return next(line.split(":")[1].strip() for line in stream if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
