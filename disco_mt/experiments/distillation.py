"""Table 4: what distillation gives each model and decoder, on dev."""

from __future__ import annotations

from disco_mt.experiments import paper
from disco_mt.experiments.decode import Decoding, Hypotheses, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number, signed
from disco_mt.reporting.verdicts import Judge, Texts, Verdict
from disco_mt.suites import roles
from disco_mt.suites.roles import mask_predict
from disco_mt.suites.suite import Suite

CMLM = (roles.CMLM_RAW, roles.CMLM)
DISCO = (roles.DISCO_RAW, roles.DISCO)
AT = (roles.AT_RAW, roles.AT)
DECODERS = {
    "CMLM + MaskP, T=4": (CMLM, mask_predict(4)),
    "CMLM + MaskP, T=10": (CMLM, mask_predict(10)),
    "DisCo + MaskP, T=4": (DISCO, mask_predict(4)),
    "DisCo + MaskP, T=10": (DISCO, mask_predict(10)),
    "DisCo + EasyF, T=10": (DISCO, roles.EASY_FIRST),
    "AT Base, b=1": (AT, roles.GREEDY),
    "AT Base, b=5": (AT, roles.BEAM),
}
DIRECTIONS = ("en-de", "ro-en")
Pairs = dict[str, tuple[Hypotheses, Hypotheses]]  # label -> raw, distilled


def run(lab: Lab, options: Options) -> Report:
    """Each decoder on the raw and on the distilled model; AT only where the suite has a distilled one."""
    found: Pairs = {}
    for label, (pair, decoding) in DECODERS.items():
        if pair == AT and not roles.has(lab.suite, roles.AT):
            continue
        names = [lab.system(role) for role in pair]
        beam = decoding == roles.BEAM
        decodings = [lab.beam(name) if beam else Decoding(name, decoding) for name in names]
        raw, distilled = (lab.decode(each, "valid") for each in decodings)
        found[label] = raw, distilled
    return Report((_table(lab, found),), _verdicts(lab.judge("valid"), found))


def needs(suite: Suite) -> list[str]:
    """All six; a suite may do without distilled AT, and so without its rows."""
    return roles.systems_for(suite, (*CMLM, *DISCO, *(AT if roles.has(suite, roles.AT) else ())))


def _table(lab: Lab, found: Pairs) -> Table:
    rows = []
    for label, pair in found.items():
        raw, distilled = (lab.quality(each).bleu for each in pair)
        theirs = [paper.DISTILLATION[label].get(direction) for direction in DIRECTIONS]
        cells = [
            number(value, 1)
            for entry in theirs
            for value in ((entry.raw, entry.distilled, entry.gain) if entry else (None, None, None))
        ]
        rows.append((label, number(raw), number(distilled), signed(distilled - raw), *cells))
    beside = [f"paper {direction}: {name}" for direction in DIRECTIONS for name in ("raw", "dist.", "gain")]
    signature = lab.quality(found["DisCo + EasyF, T=10"][0]).bleu_signature
    note = f"Dev BLEU (sacreBLEU `{signature}`); the paper's is tokenised BLEU on WMT dev sets."
    header = ("system", "raw", "distilled", "gain", *beside)
    return Table(f"Ours ({lab.suite.name}) beside the paper's", header, tuple(rows), note)


def _verdicts(judge: Judge, found: Pairs) -> tuple[Verdict, ...]:
    pairs: dict[str, tuple[Texts, Texts]] = {
        label: (raw.texts, distilled.texts) for label, (raw, distilled) in found.items()
    }
    helps = [
        judge.better(f"Distillation helps {label} (Section 5.1)", distilled, raw)
        for label, (raw, distilled) in pairs.items()
    ]
    more = [
        judge.gains_more(
            f"DisCo gains more than the CMLM, mask-predict T={t} (Section 5.1)",
            pairs[f"DisCo + MaskP, T={t}"],
            pairs[f"CMLM + MaskP, T={t}"],
        )
        for t in (4, 10)
    ]
    less = [
        judge.gains_more(
            f"{name}: the gain shrinks from {a} to {b} (Section 5.1)",
            pairs[f"{label}, {a}"],
            pairs[f"{label}, {b}"],
        )
        for name, label, a, b in (
            ("CMLM", "CMLM + MaskP", "T=4", "T=10"),
            ("DisCo", "DisCo + MaskP", "T=4", "T=10"),
            ("AT", "AT Base", "b=1", "b=5"),
        )
        if f"{label}, {a}" in pairs
    ]
    return (*helps, *more, *less)


EXPERIMENT = Experiment(
    "Distillation",
    paper.TABLE_4,
    needs,
    run,
    inconsistencies=paper.INCONSISTENCIES["distillation"],
)
