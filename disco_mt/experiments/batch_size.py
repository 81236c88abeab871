"""Figure 3: quality against the number of tokens an update has, the number of updates being the same."""

from __future__ import annotations

from functools import partial

from disco_mt.experiments import paper, systems
from disco_mt.experiments.decode import Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.experiments.size_sweep import Size, grow, grown_figure, grown_table, remarks
from disco_mt.experiments.variants import with_batch
from disco_mt.reporting.reports import Report

PARTS = (8, 4, 2, 1)  # of the suite's batch


def run(lab: Lab, options: Options, command: str) -> Report:
    """DisCo and CMLM at an eighth, a quarter, a half and the whole of the suite's batch size."""
    data = lab.workspace.dataset("distilled")
    whole = lab.suite.system(lab.system(systems.DISCO)).recipe.training.batch_tokens
    tokens = sorted({max(1, whole // part) for part in PARTS})
    sizes = [Size(each, partial(with_batch, tokens=each), data) for each in tokens]
    found = grow(lab, options, "batch", sizes)
    disco, cmlm = found["DisCo + Easy-First"], found["CMLM + Mask-Predict"]
    verdict = lab.judge("test").gains_more(
        f"DisCo is more robust to smaller batches: it loses less from {tokens[-1]:,} to {tokens[0]:,} tokens "
        "(Section 5.1)",
        (disco[tokens[-1]].texts, disco[tokens[0]].texts),
        (cmlm[tokens[-1]].texts, cmlm[tokens[0]].texts),
    )
    return Report(
        title=f"Batch size: {lab.suite.name}",
        source=paper.FIGURE_BATCH,
        command=command,
        tables=(grown_table(lab, found, "tokens"),),
        verdicts=(verdict,),
        figures=(grown_figure(lab, found, "batch-size", "tokens an update"),),
        notes=remarks(options),
    )


EXPERIMENT = Experiment(
    "Batch size",
    lambda suite: [],  # the models are made here; where distilled data are missing, the workspace says so
    run,
    ("wmt14.en-de",),
    plots=True,
)
