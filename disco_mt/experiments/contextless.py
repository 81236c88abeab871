"""Table 5: an autoregressive decoder with contextless keys and values, on the test set."""

from __future__ import annotations

from disco_mt.experiments import paper
from disco_mt.experiments.decode import Hypotheses, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number, signed
from disco_mt.suites import roles
from disco_mt.suites.roles import Role
from disco_mt.suites.suite import Suite

PAIRS = {  # data -> (original, contextless)
    "raw": (roles.AT_RAW, roles.CONTEXTLESS_RAW),
    "distilled": (roles.AT, roles.CONTEXTLESS),
}


def needs(suite: Suite) -> list[str]:
    """The pairs that the suite has; a suite without any contextless model is told so."""
    pairs = _pairs(suite) or {"distilled": PAIRS["distilled"]}
    return roles.systems_for(suite, [role for pair in pairs.values() for role in pair])


def run(lab: Lab, options: Options) -> Report:
    """Both decoders with beam 5, each with the length penalty that is best on dev."""
    found = {
        data: (
            lab.decode(lab.beam(lab.system(original)), "test"),
            lab.decode(lab.beam(lab.system(other)), "test"),
        )
        for data, (original, other) in _pairs(lab.suite).items()
    }
    verdicts = tuple(
        lab.judge("test").comparable(
            f"AT with contextless keys and values retains performance, {data} data (Section 5.1)",
            contextless.texts,
            original.texts,
        )
        for data, (original, contextless) in found.items()
    )
    return Report((_table(lab, found),), verdicts)


def _pairs(suite: Suite) -> dict[str, tuple[Role, Role]]:
    return {data: pair for data, pair in PAIRS.items() if all(roles.has(suite, role) for role in pair)}


def _table(lab: Lab, found: dict[str, tuple[Hypotheses, Hypotheses]]) -> Table:
    scores = {f"ours, {data}": [lab.quality(each).bleu for each in pair] for data, pair in found.items()}
    for (direction, data), original in paper.CONTEXTLESS["Original"].items():
        contextless = paper.CONTEXTLESS["Contextless"][direction, data]
        scores[f"paper, {direction}, {data}"] = [original, contextless]
    rows = tuple(
        (label, number(contextless), number(original), signed(contextless - original))
        for label, (original, contextless) in scores.items()
    )
    signature = lab.quality(next(iter(found.values()))[0]).bleu_signature
    note = f"Test BLEU, beam 5; ours is sacreBLEU `{signature}`, the paper's tokenised BLEU."
    header = ("data", "contextless", "original", "difference")
    return Table(f"Ours ({lab.suite.name}) beside the paper's", header, rows, note)


EXPERIMENT = Experiment(
    "AT with contextless keys and values",
    paper.TABLE_5,
    needs,
    run,
    inconsistencies=paper.INCONSISTENCIES["contextless"],
)
