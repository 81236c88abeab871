"""Table 5: an autoregressive decoder with contextless keys and values, on the test set."""

from __future__ import annotations

from disco_mt.experiments import paper, systems
from disco_mt.experiments.decode import Hypotheses, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.experiments.systems import Role
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number, signed
from disco_mt.suites.suite import Suite

PAIRS = {  # data -> (original, contextless)
    "raw": (systems.AT_RAW, systems.CONTEXTLESS_RAW),
    "distilled": (systems.AT, systems.CONTEXTLESS),
}


def needs(suite: Suite) -> list[str]:
    """The pairs that the suite has; a suite without any contextless model is told so."""
    roles = [role for pair in _pairs(suite).values() for role in pair]
    return systems.systems_for(suite, roles or PAIRS["distilled"])


def run(lab: Lab, options: Options, command: str) -> Report:
    """Both decoders with beam 5, each with the length penalty that dev likes best."""
    found = {
        data: (_decode(lab, original), _decode(lab, contextless))
        for data, (original, contextless) in _pairs(lab.suite).items()
    }
    judge = lab.judge("test")
    verdicts = tuple(
        judge.comparable(
            f"AT with contextless keys and values retains performance, {data} data (Section 5.1)",
            contextless.texts,
            original.texts,
        )
        for data, (original, contextless) in found.items()
    )
    return Report(
        title=f"AT with contextless keys and values: {lab.suite.name}",
        source=paper.TABLE_5,
        command=command,
        tables=(_table(lab, found),),
        verdicts=verdicts,
        inconsistencies=paper.INCONSISTENCIES["contextless"],
    )


def _decode(lab: Lab, role: Role) -> Hypotheses:
    return lab.decode(lab.beam(lab.system(role)), "test")


def _pairs(suite: Suite) -> dict[str, tuple[Role, Role]]:
    return {data: pair for data, pair in PAIRS.items() if all(systems.has(suite, role) for role in pair)}


def _table(lab: Lab, found: dict[str, tuple[Hypotheses, Hypotheses]]) -> Table:
    rows = []
    for data, pair in found.items():
        original, contextless = (lab.quality(each).bleu for each in pair)
        rows.append((f"ours, {data}", number(contextless), number(original), signed(contextless - original)))
    for (direction, data), original in paper.CONTEXTLESS["Original"].items():
        contextless = paper.CONTEXTLESS["Contextless"][direction, data]
        rows.append(
            (
                f"paper, {direction}, {data}",
                number(contextless),
                number(original),
                signed(contextless - original),
            )
        )
    signature = lab.quality(next(iter(found.values()))[0]).bleu_signature
    note = f"Test BLEU, beam 5; ours is sacreBLEU `{signature}`, the paper's tokenised BLEU."
    header = ("data", "contextless", "original", "difference")
    return Table(f"Ours ({lab.suite.name}) beside the paper's", header, tuple(rows), note)


EXPERIMENT = Experiment(
    "AT with contextless keys and values", needs, run, ("wmt14.en-de", "wmt14.de-en", "wmt16.ro-en")
)
