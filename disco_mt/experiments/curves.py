"""How the models of a suite were trained: dev BLEU by epoch, and what that took."""

from __future__ import annotations

from dataclasses import dataclass

from disco_mt.core.errors import UserError
from disco_mt.experiments.decode import Lab
from disco_mt.experiments.experiment import Experiment, Options
from disco_mt.experiments.main import SUITES
from disco_mt.reporting.plots import Figure, Series
from disco_mt.reporting.reports import Report
from disco_mt.reporting.tables import Table, duration, number
from disco_mt.training.rundir import read_log


@dataclass(frozen=True)
class Curve:
    """The dev scores of one training."""

    system: str
    epochs: tuple[int, ...]
    bleu: tuple[float, ...]
    updates: int
    seconds: float
    ended: str  # steps, epochs or patience


def run(lab: Lab, options: Options, command: str) -> Report:
    """All systems of the suite that are trained."""
    curves = [_curve(lab, name) for name in lab.suite.systems if lab.workspace.is_trained(name)]
    if not curves:
        raise UserError(f"nothing is trained yet; run: disco recipe run {lab.suite.name} --stage train")
    kinds = {"autoregressive": "AT", "cmlm": "CMLM", "disco": "DisCo"}
    return Report(
        title=f"Training: {lab.suite.name}",
        source="Section 4.2 says for how many updates; it shows no curves",
        command=command,
        tables=(_table(curves),),
        figures=tuple(
            _figure(lab, kind, name, curves) for kind, name in kinds.items() if _of(lab, kind, curves)
        ),
        notes=(
            "Dev BLEU is that of single checkpoints, with the decoder that training uses for it; the models "
            f"of the other tables are the mean of the best {lab.suite.average or 'ones'}.",
            "Time is that of one thread of this machine, with whatever ran beside it: an order of magnitude.",
        ),
    )


def _curve(lab: Lab, system: str) -> Curve:
    log = read_log(lab.workspace.run_directory(system))
    dev = [entry for entry in log if entry["kind"] == "dev"]
    return Curve(
        system,
        tuple(entry["epoch"] for entry in dev),
        tuple(entry["bleu"] for entry in dev),
        log[-1]["step"],
        lab.workspace.training_seconds(system),
        next((entry["reason"] for entry in reversed(log) if entry["kind"] == "end"), ""),
    )


def _of(lab: Lab, kind: str, curves: list[Curve]) -> list[Curve]:
    return [curve for curve in curves if lab.suite.systems[curve.system].recipe.model.kind == kind]


def _table(curves: list[Curve]) -> Table:
    rows = []
    for curve in curves:
        best = max(range(len(curve.bleu)), key=curve.bleu.__getitem__)
        rows.append(
            (
                curve.system,
                f"{curve.updates:,}",
                str(curve.epochs[-1]),
                number(curve.bleu[best]),
                str(curve.epochs[best]),
                duration(curve.seconds),
                curve.ended,
            )
        )
    header = ("system", "updates", "epochs", "best dev BLEU", "in epoch", "training", "ended by")
    return Table("Trainings", header, tuple(rows), words=(0, 6))


def _figure(lab: Lab, kind: str, name: str, curves: list[Curve]) -> Figure:
    series = tuple(
        Series(curve.system, tuple(map(float, curve.epochs)), curve.bleu) for curve in _of(lab, kind, curves)
    )
    return Figure(
        f"curves-{kind}", f"{name}: dev BLEU by epoch, {lab.suite.name}", "epoch", "dev BLEU", series
    )


EXPERIMENT = Experiment("Training", lambda _: [], run, SUITES, plots=True)
