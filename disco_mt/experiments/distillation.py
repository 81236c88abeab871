"""Table 4: what distillation gives each model and decoder, on dev."""

from __future__ import annotations

from disco_mt.decoding.options import DecodingOptions
from disco_mt.experiments import paper, systems
from disco_mt.experiments.decode import Decoding, Hypotheses, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.experiments.systems import Role, mask_predict
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number, signed
from disco_mt.reporting.verdicts import Judge, Texts, Verdict
from disco_mt.suites.suite import Suite

CMLM, DISCO, AT = (
    (systems.CMLM_RAW, systems.CMLM),
    (systems.DISCO_RAW, systems.DISCO),
    (systems.AT_RAW, systems.AT),
)
Pairs = dict[str, tuple[Hypotheses, Hypotheses]]


def run(lab: Lab, options: Options, command: str) -> Report:
    """Each decoder on the raw and on the distilled model."""
    found = _decode(lab)
    return Report(
        title=f"Distillation: {lab.suite.name}",
        source=paper.TABLE_4,
        command=command,
        tables=(_table(lab, found),),
        verdicts=_verdicts(lab.judge("valid"), found),
        inconsistencies=paper.INCONSISTENCIES["distillation"],
    )


def _decode(lab: Lab) -> Pairs:
    def pair(roles: tuple[Role, Role], options: DecodingOptions) -> tuple[Hypotheses, Hypotheses]:
        raw, distilled = (lab.decode(Decoding(lab.system(role), options), "valid") for role in roles)
        return raw, distilled

    found = {
        "CMLM + MaskP, T=4": pair(CMLM, mask_predict(4)),
        "CMLM + MaskP, T=10": pair(CMLM, mask_predict(10)),
        "DisCo + MaskP, T=4": pair(DISCO, mask_predict(4)),
        "DisCo + MaskP, T=10": pair(DISCO, mask_predict(10)),
        "DisCo + EasyF, T=10": pair(DISCO, systems.EASY_FIRST),
    }
    if systems.has(lab.suite, systems.AT):
        raw, distilled = (lab.decode(lab.beam(lab.system(role)), "valid") for role in AT)
        found |= {"AT Base, b=1": pair(AT, systems.GREEDY), "AT Base, b=5": (raw, distilled)}
    return found


def _table(lab: Lab, found: Pairs) -> Table:
    rows = []
    for label, pair in found.items():
        raw, distilled = (lab.quality(each).bleu for each in pair)
        theirs = paper.DISTILLATION[label]
        cells = [text for name in ("en-de", "ro-en") for text in _theirs(theirs.get(name))]
        rows.append((label, number(raw), number(distilled), signed(distilled - raw), *cells))
    header = ("system", "raw", "distilled", "gain", *(_named("en-de")), *(_named("ro-en")))
    signature = lab.quality(found["DisCo + EasyF, T=10"][0]).bleu_signature
    note = f"Dev BLEU (sacreBLEU `{signature}`); the paper's is tokenised BLEU on WMT dev sets."
    return Table(f"Ours ({lab.suite.name}) beside the paper's", header, tuple(rows), note)


def _named(direction: str) -> tuple[str, ...]:
    return tuple(f"paper {direction}: {name}" for name in ("raw", "dist.", "gain"))


def _theirs(entry: paper.Distilled | None) -> tuple[str, str, str]:
    if entry is None:
        return "–", "–", "–"
    return number(entry.raw, 1), number(entry.distilled, 1), number(entry.gain, 1)


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


def needs(suite: Suite) -> list[str]:
    """All six; a suite may do without distilled AT, and so without these rows."""
    return systems.systems_for(suite, (*CMLM, *DISCO, *(AT if systems.has(suite, systems.AT) else ())))


EXPERIMENT = Experiment(
    "Distillation",
    needs,
    run,
    ("wmt14.en-de", "wmt16.ro-en"),
)
