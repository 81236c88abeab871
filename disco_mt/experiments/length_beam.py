"""Figure 5: BLEU against the number of lengths that are tried, on dev."""

from __future__ import annotations

from dataclasses import replace

from disco_mt.experiments import paper
from disco_mt.experiments.decode import Decoding, Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.reporting.plots import Figure, Series
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, number
from disco_mt.suites import roles
from disco_mt.suites.roles import mask_predict

BEAMS = tuple(range(1, 10))
ONE, SEVERAL = 1, 5  # the beams that verdicts compare, fixed beforehand; 5 is the paper's default
EASY = "DisCo + Easy-First"
DECODERS = {
    "CMLM + Mask-Predict": (roles.CMLM, mask_predict(10)),
    "DisCo + Mask-Predict": (roles.DISCO, mask_predict(10)),
    EASY: (roles.DISCO, roles.EASY_FIRST),
}


def run(lab: Lab, options: Options) -> Report:
    """K = 1 ... 9 for three decoders."""
    found = {
        label: {
            beam: lab.decode(Decoding(lab.system(role), replace(decoding, length_beam=beam)), "valid")
            for beam in BEAMS
        }
        for label, (role, decoding) in DECODERS.items()
    }
    scores = {label: [lab.quality(each).bleu for each in beams.values()] for label, beams in found.items()}
    series = tuple(Series(label, tuple(map(float, BEAMS)), tuple(row)) for label, row in scores.items())
    title = f"Dev BLEU against length beam, {lab.suite.name}"
    figure = Figure("length-beam", title, "length beam K", "BLEU", series)
    rows = tuple((label, *(number(bleu) for bleu in row)) for label, row in scores.items())
    note = "Dev BLEU; T=10. The paper gives its curves (en-fr dev) as a picture only, without numbers."
    table = Table(f"Ours ({lab.suite.name})", ("", *(f"K={beam}" for beam in BEAMS)), rows, note)
    judge = lab.judge("valid")
    pairs = {label: (beams[ONE].texts, beams[SEVERAL].texts) for label, beams in found.items()}
    benefit = [
        judge.better(f"{label} benefits from several lengths, K=1 to 5 (Section 5.2)", several, one)
        for label, (one, several) in pairs.items()
    ]
    most = [
        judge.gains_more(f"{EASY} improves more than {label}, K=1 to 5 (Section 5.2)", pairs[EASY], pair)
        for label, pair in pairs.items()
        if label != EASY
    ]
    return Report((table,), (*benefit, *most), (figure,))


EXPERIMENT = Experiment(
    "Length beam",
    paper.FIGURE_LENGTH_BEAM,
    lambda suite: roles.systems_for(suite, [roles.CMLM, roles.DISCO]),
    run,
    plots=True,
)
