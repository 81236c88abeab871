"""How the models of a suite were trained: dev BLEU by epoch, and what that took."""

from __future__ import annotations

from disco_mt.core.errors import UserError
from disco_mt.experiments.decode import Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.reporting.plots import Figure, Series
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, duration, number
from disco_mt.training.rundir import read_log

KINDS = {"autoregressive": "AT", "cmlm": "CMLM", "disco": "DisCo"}


def run(lab: Lab, options: Options) -> Report:
    """All systems of the suite that are trained."""
    trained = [name for name in lab.suite.systems if lab.workspace.is_trained(name)]
    if not trained:
        raise UserError(f"nothing is trained yet; run: disco suite run {lab.suite.name} --stage train")
    curves: dict[str, list[Series]] = {kind: [] for kind in KINDS}
    rows = []
    for name in trained:
        log = read_log(lab.workspace.run_directory(name))
        dev = [entry for entry in log if entry["kind"] == "dev"]
        best = max(dev, key=lambda entry: float(entry["bleu"]))
        ended = next((entry["reason"] for entry in reversed(log) if entry["kind"] == "end"), "")
        seconds = duration(lab.workspace.training_seconds(name))
        updates, epochs = f"{log[-1]['step']:,}", str(dev[-1]["epoch"])
        rows.append((name, updates, epochs, number(best["bleu"]), str(best["epoch"]), seconds, ended))
        points = tuple(float(entry["epoch"]) for entry in dev), tuple(float(entry["bleu"]) for entry in dev)
        curves[lab.suite.system(name).recipe.model.kind].append(Series(name, *points))
    header = ("system", "updates", "epochs", "best dev BLEU", "in epoch", "training", "ended by")
    figures = [
        Figure(
            f"curves-{kind}", f"{KINDS[kind]}: dev BLEU, {lab.suite.name}", "epoch", "dev BLEU", tuple(series)
        )
        for kind, series in curves.items()
        if series
    ]
    notes = (
        "Dev BLEU is that of single checkpoints, with the decoder that training uses for it; the models "
        f"of the other tables are the mean of the best {lab.suite.average or 'ones'}.",
        "Time is that of one thread of this machine, with whatever ran beside it: an order of magnitude.",
    )
    return Report((Table("Trainings", header, tuple(rows), words=(0, 6)),), (), tuple(figures), notes)


EXPERIMENT = Experiment(
    "Training",
    "Section 4.2 says for how many updates; it shows no curves",
    lambda _: [],
    run,
    plots=True,
)
