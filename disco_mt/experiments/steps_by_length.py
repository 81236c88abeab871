"""Figure 6: how many steps easy-first takes for sentences of each length, on the test set."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import mean

from disco_mt.experiments import paper
from disco_mt.experiments.decode import Decoding, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.reporting.intervals import correlation
from disco_mt.reporting.plots import Figure, Series
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number
from disco_mt.reporting.verdicts import Verdict
from disco_mt.suites import roles

BIN = 5  # tokens


def run(lab: Lab, options: Options) -> Report:
    """T=10, length beam 5, as in the paper."""
    found = lab.decode(Decoding(lab.system(roles.DISCO), roles.EASY_FIRST), "test")
    by_length: dict[int, list[int]] = defaultdict(list)  # the first length of a bin -> steps of its sentences
    for tokens, steps in zip(found.tokens, found.steps, strict=True):
        by_length[tokens - tokens % BIN].append(steps)
    bins = dict(sorted(by_length.items()))
    rows = tuple(
        (f"{first}–{first + BIN - 1}", str(len(steps)), number(mean(steps)), _counts(steps))
        for first, steps in bins.items()
    )
    header = ("tokens", "sentences", "mean steps", "steps: sentences")
    note = f"Generated tokens, EOS left out; {number(found.mean_steps)} steps on average over all sentences."
    points = sorted({*zip(map(float, found.tokens), map(float, found.steps), strict=True)})
    middles = tuple(first + (BIN - 1) / 2 for first in bins)
    series = (
        Series("sentences", tuple(x for x, _ in points), tuple(y for _, y in points), joined=False),
        Series(f"mean of {BIN} lengths", middles, tuple(map(mean, bins.values()))),
    )
    title = f"Easy-first steps against length, {lab.suite.name}"
    r = correlation(found.tokens, found.steps, lab.samples)
    claim = "Long sentences tend to require more iterations (Section 5.2)"
    return Report(
        (Table(f"Ours ({lab.suite.name})", header, rows, note, words=(0, 3)),),
        (Verdict(claim, r.above(), f"correlation {r}"),),
        (Figure("steps-by-length", title, "tokens", "steps", series),),
        ("The paper gives its figure as a picture only, without numbers.",),
    )


def _counts(steps: list[int]) -> str:
    return ", ".join(f"{step}: {count}" for step, count in sorted(Counter(steps).items()))


EXPERIMENT = Experiment(
    "Steps by length",
    paper.FIGURE_STEPS,
    lambda suite: roles.systems_for(suite, [roles.DISCO]),
    run,
    plots=True,
)
