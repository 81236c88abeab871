"""Figure 5: BLEU against the number of lengths that are tried, on dev."""

from __future__ import annotations

from dataclasses import replace

from disco_mt.experiments import paper, systems
from disco_mt.experiments.decode import Decoding, Hypotheses, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.experiments.systems import mask_predict
from disco_mt.reporting.plots import Figure, Series
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number
from disco_mt.reporting.verdicts import Texts, Verdict

BEAMS = tuple(range(1, 10))
COMPARED = (1, 5)  # fixed beforehand: one length, and the paper's default
DECODERS = {
    "CMLM + Mask-Predict": (systems.CMLM, mask_predict(10)),
    "DisCo + Mask-Predict": (systems.DISCO, mask_predict(10)),
    "DisCo + Easy-First": (systems.DISCO, systems.EASY_FIRST),
}


def run(lab: Lab, options: Options, command: str) -> Report:
    """K = 1 ... 9 for three decoders."""
    found = {
        label: {
            beam: lab.decode(Decoding(lab.system(role), replace(decoding, length_beam=beam)), "valid")
            for beam in BEAMS
        }
        for label, (role, decoding) in DECODERS.items()
    }
    scores = {
        label: [lab.quality(each).bleu for each in by_beam.values()] for label, by_beam in found.items()
    }
    series = tuple(Series(label, tuple(map(float, BEAMS)), tuple(row)) for label, row in scores.items())
    figure = Figure(
        "length-beam", f"Dev BLEU against length beam, {lab.suite.name}", "length beam K", "BLEU", series
    )
    rows = tuple((label, *(number(bleu) for bleu in row)) for label, row in scores.items())
    note = "Dev BLEU; T=10. The paper gives its curves (en-fr dev) as a picture only, without numbers."
    return Report(
        title=f"Length beam: {lab.suite.name}",
        source=paper.FIGURE_LENGTH_BEAM,
        command=command,
        tables=(Table(f"Ours ({lab.suite.name})", ("", *(f"K={beam}" for beam in BEAMS)), rows, note),),
        verdicts=_verdicts(lab, found),
        figures=(figure,),
    )


def _verdicts(lab: Lab, found: dict[str, dict[int, Hypotheses]]) -> tuple[Verdict, ...]:
    judge = lab.judge("valid")
    pairs: dict[str, tuple[Texts, Texts]] = {
        label: (by_beam[COMPARED[0]].texts, by_beam[COMPARED[1]].texts) for label, by_beam in found.items()
    }
    benefit = [
        judge.better(f"{label} benefits from several lengths, K=1 to 5 (Section 5.2)", five, one)
        for label, (one, five) in pairs.items()
    ]
    easy = "DisCo + Easy-First"
    most = [
        judge.gains_more(f"{easy} improves more than {label}, K=1 to 5 (Section 5.2)", pairs[easy], pair)
        for label, pair in pairs.items()
        if label != easy
    ]
    return (*benefit, *most)


EXPERIMENT = Experiment(
    "Length beam",
    lambda suite: systems.systems_for(suite, [systems.CMLM, systems.DISCO]),
    run,
    ("wmt14.en-fr",),
    plots=True,
)
