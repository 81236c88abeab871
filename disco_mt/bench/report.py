"""What a run hands back: the verdict in words first, then tables, figures and how it was measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from disco_mt.bench.compare import BEST, PROCESSOR, Ratio, best_threads, fastest_batch, ratios, verdict
from disco_mt.bench.measure import Measured, Result
from disco_mt.bench.record import About, machine_facts, mean_gflop, speed, to_json
from disco_mt.bench.statistics import groups
from disco_mt.core.files import write_text
from disco_mt.reporting.plots import Figure, Series, draw
from disco_mt.reporting.tables import MISSING, Table, markdown, number
from disco_mt.reporting.timing import latency


@dataclass(frozen=True)
class Report:
    """A run for people and, as `data`, for programs."""

    title: str
    command: str
    verdict: tuple[str, ...]
    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]
    data: dict[str, Any]


def make_report(measured: Measured, about: About) -> Report:
    """All of it."""
    found = ratios(measured)
    words = [*verdict(measured, found), *about.costs]
    return Report(
        title=about.title,
        command=about.command,
        verdict=tuple(words),
        tables=tuple(_tables(measured, found, about)),
        figures=tuple(_figures(measured)),
        notes=tuple(_notes(measured, about)),
        data=to_json(measured, found, words, about),
    )


def to_markdown(report: Report, pictures: bool = True) -> str:
    """The whole report; pictures lie beside it."""
    parts = [f"# {report.title}", f"```sh\n{report.command}\n```"]
    parts += ["\n".join(f"- {line}" for line in lines) for lines in (report.verdict, report.notes) if lines]
    parts += [markdown(table) for table in report.tables]
    parts += [f"![{figure.title}]({figure.name}.svg)" for figure in report.figures if pictures]
    return "\n\n".join(parts) + "\n"


def write_report(report: Report, folder: Path) -> None:
    """report.md, measurements.json, and every figure as .svg and .png."""
    for figure in report.figures:
        draw(figure, folder)
    write_text(folder / "measurements.json", json.dumps(report.data, indent=1) + "\n")
    write_text(folder / "report.md", to_markdown(report))


def _tables(measured: Measured, found: Sequence[Ratio], about: About) -> list[Table]:
    tables = [_latencies(measured, threads) for threads in measured.plan.threads]
    lengths = groups([_length(measured, place) for place in measured.plan.timed])
    if len(lengths) > 1:
        tables.append(_by_length(measured, lengths))
    if found:
        tables.append(_ratios(measured, found))
    if _has_batches(measured):
        tables.append(_throughput(measured))
    return [*tables, _work(measured), _memory_and_quality(measured, about)]


def _latencies(measured: Measured, threads: int) -> Table:
    rows = []
    for result in measured.alive:
        each = latency(result.times[threads].seconds)
        spread = f"{each.mean:.1f} [{each.low:.1f}, {each.high:.1f}]"
        used = latency(result.times[threads].processor).mean
        rows.append((result.system.label, spread, *_percentiles(each.p50, each.p90, each.p99, used)))
    header = ("system", "ms a sentence", "p50", "p90", "p99", "processor ms")
    note = (
        "Median over repeats, quickest and slowest repeat in brackets; percentiles over all times. Processor "
        "time is that of all threads, waiting ones that spin included."
    )
    return Table(f"One sentence at a time, {threads} thread(s)", header, tuple(rows), note)


def _by_length(measured: Measured, lengths: dict[str, list[int]]) -> Table:
    rows = []
    for result in measured.alive:
        seconds = result.times[best_threads(result)].seconds
        each = [latency(seconds, places) for places in lengths.values()]
        rows.append((result.system.label, *(f"{n.p50:.1f} / {n.p90:.1f} / {n.p99:.1f}" for n in each)))
    header = ("system", *(f"{name} {_unit(measured)}" for name in lengths))
    return Table("p50 / p90 / p99 in ms by length, each at its best thread count", header, tuple(rows))


def _ratios(measured: Measured, found: Sequence[Ratio]) -> Table:
    settings = list(dict.fromkeys(each.threads for each in found))
    cells = {(each.system, each.baseline, each.threads): _ratio(each) for each in found}
    pairs = dict.fromkeys((each.system, each.baseline) for each in found)
    rows = tuple((*pair, *(cells[(*pair, threads)] for threads in settings)) for pair in pairs)
    special = {BEST: "each at its best", PROCESSOR: "1 thread, processor time"}
    names = [special.get(setting, f"{setting} thread(s)") for setting in settings]
    note = "Above 1: the left system is faster. 95 % intervals; 'tie' where they hold 1."
    return Table("Times as fast as", ("system", "as", *names), rows, note, words=(0, 1))


def _ratio(each: Ratio) -> str:
    interval = f"{each.value.estimate:.2f} [{each.value.low:.2f}, {each.value.high:.2f}]"
    return f"{interval} tie" if each.tie else interval


def _throughput(measured: Measured) -> Table:
    sentences = len(measured.plan.batched)
    rows = []
    for result in measured.alive:
        threads, size, best = fastest_batch(result, sentences)
        each = result.times[threads].batches
        rates = [number(sentences / min(each[n]), 1) if each[n] else MISSING for n in measured.plan.sizes]
        rows.append((result.system.label, str(threads), *rates, f"{best:.1f} (at {size})"))
    header = ("system", "threads", *(f"batch {size}" for size in measured.plan.sizes), "best")
    return Table(f"Sentences a second, in batches ({sentences} sentences)", header, tuple(rows))


def _work(measured: Measured) -> Table:
    rows = []
    for result in measured.alive:
        done, plain = (
            sum(getattr(each, name) for each in result.outcomes) for name in ("rows", "plain_rows")
        )
        count = len(result.outcomes)
        speeds = [_share(measured, result, threads) for threads in measured.plan.threads]
        rows.append(
            (
                result.system.label,
                number(fmean(each.steps for each in result.outcomes)),
                number(done / count, 1),
                f"{100 * done / plain:.1f} %",
                number(mean_gflop(result)),
                *speeds,
            )
        )
    columns = ("system", "steps", "decoder rows", "of the plain rows", "GFLOP a sentence")
    header = (*columns, *(f"GFLOP/s, {threads} thread(s)" for threads in measured.plan.threads))
    peaks = "; ".join(
        f"{threads} thread(s): " + ", ".join(f"{name} {value:.0f}" for name, value in peak.items())
        for threads, peak in measured.peak.items()
    )
    note = (
        f"Peak measured in the same run, GFLOP/s: {peaks}. A row is a position of a candidate in a pass; "
        "in brackets the share of the peak of the system's precision."
    )
    return Table("Work a sentence", header, tuple(rows), note)


def _share(measured: Measured, result: Result, threads: int) -> str:
    """GFLOP/s over the timed sentences, where these are the ones whose work was counted."""
    rate = speed(measured, result, threads)
    peak = measured.peak.get(threads, {}).get(result.system.precision)
    return f"{rate:.1f}" + (f" ({100 * rate / peak:.0f} %)" if peak else "")


def _memory_and_quality(measured: Measured, about: About) -> Table:
    rows = []
    for result in measured.alive:
        memory, quality = result.memory, about.qualities.get(result.system.label)
        sizes = [number(each, 0) for each in (memory.peak, memory.libraries)] if memory else [MISSING] * 2
        scores = [number(quality.bleu), number(quality.chrf)] if quality else []
        rows.append((result.system.label, *sizes, *scores))
    header = ("system", "peak MB", "of it libraries", *(("BLEU", "chrF") if about.qualities else ()))
    signatures = {each.bleu_signature for each in about.qualities.values()}
    note = f"Peak while translating one sentence at a time, a process a system. {' '.join(signatures)}"
    return Table("Memory and quality" if about.qualities else "Memory", header, tuple(rows), note.rstrip())


def _figures(measured: Measured) -> list[Figure]:
    lengths = groups([_length(measured, place) for place in measured.plan.timed])
    found = [_overview(measured)] if _has_batches(measured) else []
    if len(lengths) > 1:
        series = [
            Series(
                result.system.label,
                tuple(
                    fmean(_length(measured, measured.plan.timed[p]) for p in places)
                    for places in lengths.values()
                ),
                tuple(latency(result.times[best_threads(result)].seconds, p).p50 for p in lengths.values()),
            )
            for result in measured.alive
        ]
        found.append(Figure("latency", "One sentence at a time", _unit(measured), "p50, ms", tuple(series)))
    return found


def _has_batches(measured: Measured) -> bool:
    return any(fastest_batch(each, 1)[2] for each in measured.alive)


def _overview(measured: Measured) -> Figure:
    """Latency against throughput: right and down is slow."""
    families: dict[str, list[Result]] = {}
    for result in measured.alive:
        families.setdefault(f"{result.system.weights.name}, {result.system.runtime}", []).append(result)
    count = len(measured.plan.batched)
    series = [
        Series(
            name,
            tuple(latency(each.times[best_threads(each)].seconds).mean for each in results),
            tuple(fastest_batch(each, count)[2] for each in results),
            False,
            tuple(f"{each.system.decoding} {each.system.precision}" for each in results),
        )
        for name, results in families.items()
    ]
    title = "One sentence at a time and in the best batch"
    return Figure("overview", title, "ms a sentence", "sentences a second", tuple(series), logarithmic=True)


def _length(measured: Measured, place: int) -> int:
    sentence = measured.sentences[place]
    return sentence.words or len(sentence.text.split())


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
        f"{result.system.label} could not be measured: {result.died}."
        for result in measured.results
        if result.died
    ]
    load = measured.load
    calm = f"Other processes used {load.during:.2f} of {load.cores} cores during the measurement."
    return [clock, f"Machine: {machine}.", *died, f"WARNING: {load.warning()}." if load.busy else calm]


def _percentiles(*values: float) -> list[str]:
    return [number(value, 1) for value in values]
