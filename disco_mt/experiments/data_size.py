"""DisCo against CMLM as data grows (Section 4.3): the same distilled pairs, a part of them, all of them."""

from __future__ import annotations

from disco_mt.data.dataset import Dataset
from disco_mt.data.subset import write_subset
from disco_mt.experiments.decode import Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.experiments.main import SUITES
from disco_mt.experiments.size_sweep import Size, grow, grown_figure, grown_table, remarks
from disco_mt.reporting.reports import Report
from disco_mt.training.options import TrainingOptions

PARTS = (16, 4, 1)  # of the distilled training pairs


def run(lab: Lab, options: Options, command: str) -> Report:
    """DisCo and CMLM on a sixteenth, a quarter and all of the distilled pairs."""
    sizes = _sizes(lab)
    found = grow(lab, options, "pairs", sizes)
    disco, cmlm = found["DisCo + Easy-First"], found["CMLM + Mask-Predict"]
    few, all_ = sizes[0].value, sizes[-1].value
    verdict = lab.judge("test").gains_more(
        f"DisCo gains more than the CMLM as data grows, {few:,} to {all_:,} pairs (Section 4.3)",
        (disco[few].texts, disco[all_].texts),
        (cmlm[few].texts, cmlm[all_].texts),
    )
    return Report(
        title=f"Data size: {lab.suite.name}",
        source="Section 4.3: DisCo's advantage is limited on small corpora and more pronounced on large ones",
        command=command,
        tables=(grown_table(lab, found, "pairs"),),
        verdicts=(verdict,),
        figures=(grown_figure(lab, found, "data-size", "training pairs"),),
        notes=(
            "Parts are random, and each has the smaller ones in it. All come from one teacher that saw all "
            "pairs; the paper compares different corpora with different teachers.",
            *remarks(options),
        ),
    )


def _sizes(lab: Lab) -> list[Size]:
    """The parts as datasets, in the workspace."""
    whole = lab.workspace.dataset("distilled")
    pairs = len(Dataset.open(whole).splits["train"])
    fingerprint = Dataset.open(whole).fingerprint[:12]
    sizes = []
    for number in sorted({max(1, pairs // part) for part in PARTS}):
        folder = lab.workspace.folder / "subsets" / fingerprint / str(number)
        if number < pairs and not folder.exists():
            write_subset(whole, folder, number)
        sizes.append(Size(number, _same, folder if number < pairs else whole))
    return sizes


def _same(options: TrainingOptions) -> TrainingOptions:
    return options


EXPERIMENT = Experiment(
    "Data size",
    lambda suite: [],  # the models are made here; where distilled data are missing, the workspace says so
    run,
    SUITES,
    plots=True,
)
