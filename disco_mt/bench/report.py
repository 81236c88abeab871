"""What a run hands back: the verdict in words first, then tables, figures and how it was measured."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np

from disco_mt.bench.compare import (
    BEST,
    PROCESSOR,
    Ratio,
    best_seconds,
    best_threads,
    fastest_batch,
    ratios,
    verdict,
)
from disco_mt.bench.measure import Measured, Result
from disco_mt.bench.work import mean_gflop, speed
from disco_mt.core.machine import package_version, processor
from disco_mt.engine.select import arithmetic
from disco_mt.evaluation.quality import Quality
from disco_mt.reporting.plots import Figure, Series
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import MISSING, Table, number
from disco_mt.reporting.timing import latency

FORMAT = 2  # of the JSON; 1 had `runtime` where there is `engine`


@dataclass(frozen=True)
class About:
    title: str
    command: str
    clock: str  # what is measured, in words
    qualities: dict[str, Quality]  # by label, where there are references
    costs: tuple[str, ...] = ()  # what int8 and the shortlist cost in BLEU, in words


def make_report(measured: Measured, about: About) -> Report:
    pairs = ratios(measured)
    findings = (*verdict(measured, pairs), *about.costs)
    return Report(
        title=about.title,
        source="",
        command=about.command,
        tables=tuple(_tables(measured, pairs, about)),
        figures=tuple(_figures(measured)),
        notes=tuple(_notes(measured, about)),
        data=_json(measured, pairs, findings, about),
        findings=findings,
    )


def _tables(measured: Measured, pairs: Sequence[Ratio], about: About) -> list[Table]:
    tables = [_latencies(measured, threads) for threads in measured.plan.threads]
    lengths = groups(_lengths(measured))
    if len(lengths) > 1:
        tables.append(_by_length(measured, lengths))
    if pairs:
        tables.append(_ratios(pairs))
    if any(fastest_batch(result, 1)[2] for result in measured.alive):
        tables.append(_throughput(measured))
    return [*tables, _work(measured), _memory_and_quality(measured, about)]


def _latencies(measured: Measured, threads: int) -> Table:
    rows = []
    for result in measured.alive:
        wall = latency(result.times[threads].seconds)
        used = latency(result.times[threads].processor).mean
        cells = [number(value, 1) for value in (wall.p50, wall.p90, wall.p99, used)]
        rows.append((result.label, f"{wall.mean:.1f} [{wall.low:.1f}, {wall.high:.1f}]", *cells))
    header = ("system", "ms per sentence", "p50", "p90", "p99", "processor ms")
    note = (
        "Median over repeats, quickest and slowest repeat in brackets; percentiles over all times. Processor "
        "time is that of all threads, waiting ones that spin included."
    )
    return Table(f"One sentence at a time, {threads} thread(s)", header, tuple(rows), note)


def _by_length(measured: Measured, lengths: dict[str, list[int]]) -> Table:
    rows = []
    for result in measured.alive:
        groups_of = [latency(best_seconds(result), places) for places in lengths.values()]
        rows.append((result.label, *(f"{n.p50:.1f} / {n.p90:.1f} / {n.p99:.1f}" for n in groups_of)))
    header = ("system", *(f"{name} {_unit(measured)}" for name in lengths))
    return Table("p50 / p90 / p99 in ms by length, each at its best thread count", header, tuple(rows))


def _ratios(pairs: Sequence[Ratio]) -> Table:
    settings = list(dict.fromkeys(pair.threads for pair in pairs))
    cells = {
        (pair.label, pair.baseline, pair.threads): pair.value.unsigned + (" tie" if pair.tie else "")
        for pair in pairs
    }
    both = dict.fromkeys((pair.label, pair.baseline) for pair in pairs)
    rows = tuple((*names, *(cells[(*names, threads)] for threads in settings)) for names in both)
    special = {BEST: "each at its best", PROCESSOR: "1 thread, processor time"}
    columns = [special.get(setting, f"{setting} thread(s)") for setting in settings]
    note = "Above 1: the left system is faster. 95 % intervals; 'tie' where they hold 1."
    return Table("Times as fast as", ("system", "as", *columns), rows, note, words=(0, 1))


def _throughput(measured: Measured) -> Table:
    sentences = len(measured.plan.batched)
    rows = []
    for result in measured.alive:
        threads, best_size, best = fastest_batch(result, sentences)
        seconds = result.times[threads].batches
        rates = [
            number(sentences / min(seconds[size]), 1) if seconds[size] else MISSING
            for size in measured.plan.sizes
        ]
        rows.append((result.label, str(threads), *rates, f"{best:.1f} (at {best_size})"))
    header = ("system", "threads", *(f"batch {size}" for size in measured.plan.sizes), "best")
    return Table(f"Sentences per second, in batches ({sentences} sentences)", header, tuple(rows))


def _work(measured: Measured) -> Table:
    threads = measured.plan.threads
    rows = []
    for result in measured.alive:
        work = [outcome.work for outcome in result.outcomes]
        done, plain = sum(each.rows for each in work), sum(each.plain_rows for each in work)
        rows.append(
            (
                result.label,
                number(fmean(each.passes for each in work)),
                number(done / len(work), 1),
                f"{100 * done / max(1, plain):.1f} %",
                number(mean_gflop(result)),
                *(_share(measured, result, each) for each in threads),
            )
        )
    columns = ("system", "steps", "decoder rows", "of the plain rows", "GFLOP per sentence")
    header = (*columns, *(f"GFLOP/s, {each} thread(s)" for each in threads))
    peaks = "; ".join(
        f"{each} thread(s): " + ", ".join(f"{name} {value:.0f}" for name, value in peak.items())
        for each, peak in measured.peak.items()
    )
    note = (
        f"Peak measured in the same run, GFLOP/s: {peaks}. A row is a position of a candidate in a pass; "
        "in brackets the share of the peak of the system's precision."
    )
    return Table("Work per sentence", header, tuple(rows), note)


def _share(measured: Measured, result: Result, threads: int) -> str:
    rate = speed(measured, result, threads)
    peak = measured.peak.get(threads, {}).get(result.entry.precision)
    return number(rate, 1) + (f" ({100 * rate / peak:.0f} %)" if rate and peak else "")


def _memory_and_quality(measured: Measured, about: About) -> Table:
    rows = []
    for result in measured.alive:
        memory, quality = result.memory, about.qualities.get(result.label)
        sizes = [number(each, 0) for each in (memory.peak, memory.libraries)] if memory else [MISSING] * 2
        scores = [number(quality.bleu), number(quality.chrf)] if quality else []
        rows.append((result.label, *sizes, *scores))
    header = ("system", "peak MB", "of it libraries", *(("BLEU", "chrF") if about.qualities else ()))
    signatures = {each.bleu_signature for each in about.qualities.values()}
    note = f"Peak while translating one sentence at a time, one process per system. {' '.join(signatures)}"
    return Table("Memory and quality" if about.qualities else "Memory", header, tuple(rows), note.rstrip())


def _figures(measured: Measured) -> list[Figure]:
    lengths = _lengths(measured)
    by_length = groups(lengths)
    if len(by_length) < 2:
        return []
    x = tuple(fmean(lengths[place] for place in places) for places in by_length.values())
    series = [
        Series(result.label, x, tuple(latency(best_seconds(result), p).p50 for p in by_length.values()))
        for result in measured.alive
    ]
    return [Figure("latency", "One sentence at a time", _unit(measured), "p50, ms", tuple(series))]


def groups(lengths: Sequence[int], most: int = 4) -> dict[str, list[int]]:
    """Places of the sentences by length: each length where there are few, quarters of the range otherwise."""
    known = sorted(set(lengths))
    if len(known) <= most:
        return {str(n): [place for place, length in enumerate(lengths) if length == n] for n in known}
    edges = sorted({int(edge) for edge in np.quantile(lengths, np.linspace(0, 1, most + 1))})
    return {
        f"{low + 1}-{high}": [place for place, length in enumerate(lengths) if low < length <= high]
        for low, high in zip([edges[0] - 1, *edges[1:-1]], edges[1:], strict=True)
    }


def _lengths(measured: Measured) -> list[int]:
    sentences = [measured.sentences[place] for place in measured.plan.timed]
    return [sentence.words or len(sentence.text.split()) for sentence in sentences]


def _unit(measured: Measured) -> str:
    return "tokens" if measured.sentences[measured.plan.timed[0]].words else "source words"


def _notes(measured: Measured, about: About) -> list[str]:
    plan = measured.plan
    clock = (
        f"{about.clock} {len(plan.timed)} sentences one at a time, {plan.repeats} interleaved repeats after "
        "a warm-up, every system in a process of its own."
    )
    machine = "; ".join(f"{name} {value}" for name, value in machine_facts().items())
    died = [
        f"{result.label} could not be measured: {result.died}." for result in measured.results if result.died
    ]
    return [clock, f"Machine: {machine}.", *died, load_note(measured)]


def load_note(measured: Measured) -> str:
    load = measured.load
    if load.busy:
        return f"WARNING: {load.warning()}."
    return f"Other processes used {load.during:.2f} of {load.cores} cores during the measurement."


def machine_facts() -> dict[str, str]:
    return {
        "processor": processor(),
        "cores": str(os.cpu_count()),
        **{name: package_version(name) for name in ("torch", "ctranslate2", "onnxruntime")},
        "int8 of DisCo": arithmetic("int8"),
    }


def _json(
    measured: Measured, pairs: Sequence[Ratio], findings: Sequence[str], about: About
) -> dict[str, Any]:
    """Everything, raw times included; the keys are part of the interface (FORMAT)."""
    special = {BEST: "best", PROCESSOR: "1, processor time"}
    return {
        "format": FORMAT,
        "title": about.title,
        "command": about.command,
        "clock": about.clock,
        "machine": machine_facts(),
        "load": {**asdict(measured.load), "busy": measured.load.busy},
        "plan": asdict(measured.plan),
        "peak_gflops": {str(threads): peak for threads, peak in measured.peak.items()},
        "systems": [_entry_json(measured, result, about) for result in measured.results],
        "ratios": [
            {
                "system": pair.label,
                "baseline": pair.baseline,
                "threads": special.get(pair.threads, pair.threads),
                **asdict(pair.value),
                "tie": pair.tie,
            }
            for pair in pairs
        ],
        "verdict": list(findings),
    }


def _entry_json(measured: Measured, result: Result, about: About) -> dict[str, Any]:
    entry, quality = result.entry, about.qualities.get(result.label)
    known = {
        "label": result.label,
        "model": entry.weights.name,
        "kind": entry.kind,
        "engine": entry.engine,
        "precision": entry.precision,
        "decoding": entry.decoding,
        "died": result.died,
    }
    if result.died:
        return known
    work = [outcome.work for outcome in result.outcomes]
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
        "steps": fmean(each.passes for each in work),
        "rows": sum(each.rows for each in work),
        "plain_rows": sum(each.plain_rows for each in work),
        "gflop": mean_gflop(result),
        "quality": asdict(quality) if quality else None,
    }
