"""The form of batch-size and data-size: DisCo and CMLM trained at several sizes, compared on the test set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from disco_mt.decoding.options import DecodingOptions
from disco_mt.experiments import systems
from disco_mt.experiments.decode import Decoding, Hypotheses, Lab
from disco_mt.experiments.experiment import Options
from disco_mt.experiments.systems import mask_predict
from disco_mt.experiments.variants import Variant, for_updates, train_variant
from disco_mt.reporting.plots import Figure, Series
from disco_mt.reporting.tables import Table, number
from disco_mt.training.options import TrainingOptions

MODELS = {
    "CMLM + Mask-Predict": (systems.CMLM, mask_predict(10)),
    "DisCo + Easy-First": (systems.DISCO, systems.EASY_FIRST),
}
Found = dict[str, dict[int, Hypotheses]]  # by label and size


@dataclass(frozen=True)
class Size:
    """One point on the x axis: what it changes in training, and the data."""

    value: int
    change: Callable[[TrainingOptions], TrainingOptions]
    data: Path


def grow(lab: Lab, options: Options, name: str, sizes: list[Size]) -> Found:
    """Train both models at every size, and translate the test set."""
    return {
        label: {
            size.value: _one(lab, options, f"{lab.system(role)}.{name}-{size.value}", role, decoding, size)
            for size in sizes
        }
        for label, (role, decoding) in MODELS.items()
    }


def grown_table(lab: Lab, found: Found, unit: str) -> Table:
    """A row a model, a column a size."""
    sizes = list(next(iter(found.values())))
    rows = tuple(
        (label, *(number(lab.quality(each).bleu) for each in by_size.values()))
        for label, by_size in found.items()
    )
    header = ("test BLEU", *(f"{size:,} {unit}" for size in sizes))
    note = "The paper gives no numbers for this: a picture (batch size) or a remark (data size)."
    return Table(f"Ours ({lab.suite.name})", header, rows, note)


def grown_figure(lab: Lab, found: Found, name: str, x_label: str) -> Figure:
    """BLEU over size."""
    series = tuple(
        Series(label, tuple(map(float, by_size)), tuple(lab.quality(each).bleu for each in by_size.values()))
        for label, by_size in found.items()
    )
    return Figure(
        name, f"Test BLEU against {x_label}, {lab.suite.name}", x_label, "BLEU", series, logarithmic=True
    )


def remarks(options: Options) -> tuple[str, ...]:
    """What such runs can and cannot show."""
    return (
        f"Every model was trained for {options.updates:,} updates; decoding: length beam 5, T=10.",
        "One run a model: the intervals are those of the test set, not of training with other seeds.",
    )


def _one(
    lab: Lab, options: Options, name: str, role: systems.Role, decoding: DecodingOptions, size: Size
) -> Hypotheses:
    recipe = lab.suite.system(lab.system(role)).recipe
    training = for_updates(size.change(recipe.training), options.updates, lab.suite.average)
    system = train_variant(lab, Variant(name, replace(recipe, training=training), size.data))
    return lab.decode(Decoding(system, decoding), "test")
