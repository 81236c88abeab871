"""Figure 6: how many steps easy-first takes for sentences of each length, on the test set."""

from __future__ import annotations

from collections import defaultdict

from disco_mt.experiments import paper, systems
from disco_mt.experiments.decode import Decoding, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.reporting.intervals import correlation
from disco_mt.reporting.plots import Figure, Series
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number
from disco_mt.reporting.verdicts import Verdict

BIN = 5  # tokens


def run(lab: Lab, options: Options, command: str) -> Report:
    """T=10, length beam 5, as in the paper."""
    found = lab.decode(Decoding(lab.system(systems.DISCO), systems.EASY_FIRST), "test")
    bins: dict[int, list[int]] = defaultdict(list)
    for tokens, steps in zip(found.tokens, found.steps, strict=True):
        bins[tokens // BIN].append(steps)
    ordered = sorted(bins.items())
    rows = tuple(
        (_label(place), str(len(steps)), number(_mean(steps)), _shares(steps)) for place, steps in ordered
    )
    header = ("tokens", "sentences", "mean steps", "steps: sentences")
    note = f"Generated tokens, EOS left out; {number(found.mean_steps)} steps on average over all sentences."
    r = correlation(found.tokens, found.steps, lab.samples)
    verdict = Verdict(
        "Long sentences tend to require more iterations (Section 5.2)", r.above(), f"correlation {r}"
    )
    return Report(
        title=f"Steps by length: {lab.suite.name}",
        source=paper.FIGURE_STEPS,
        command=command,
        tables=(Table(f"Ours ({lab.suite.name})", header, rows, note, words=(0, 3)),),
        verdicts=(verdict,),
        figures=(_figure(lab, found.tokens, found.steps, ordered),),
        notes=("The paper gives its figure as a picture only, without numbers.",),
    )


def _figure(
    lab: Lab, tokens: tuple[int, ...], steps: tuple[int, ...], bins: list[tuple[int, list[int]]]
) -> Figure:
    points = sorted(set(zip(map(float, tokens), map(float, steps), strict=True)))
    middles = tuple(place * BIN + (BIN - 1) / 2 for place, _ in bins)
    series = (
        Series("sentences", tuple(x for x, _ in points), tuple(y for _, y in points), joined=False),
        Series(f"mean of {BIN} lengths", middles, tuple(_mean(each) for _, each in bins)),
    )
    return Figure(
        "steps-by-length", f"Easy-first steps against length, {lab.suite.name}", "tokens", "steps", series
    )


def _label(place: int) -> str:
    return f"{place * BIN}–{place * BIN + BIN - 1}"


def _mean(values: list[int]) -> float:
    return sum(values) / len(values)


def _shares(steps: list[int]) -> str:
    return ", ".join(f"{step}: {steps.count(step)}" for step in sorted(set(steps)))


EXPERIMENT = Experiment(
    "Steps by length",
    lambda suite: systems.systems_for(suite, [systems.DISCO]),
    run,
    ("wmt14.en-de",),
    plots=True,
)
