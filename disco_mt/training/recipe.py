"""A recipe: all that makes one trained model, as a TOML file that a person can read and change.

Sections: [model] (nn/config.py), [objective] (systems/objective.py), [start] (start.py), [training]
(training/options.py) and [decoding], the way dev BLEU is measured (decoding/options.py). What is left out
has the paper's value; lengths that are left out (max_source, max_target, length_classes) come from the data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from disco_mt.core.errors import UserError
from disco_mt.core.settings import from_dict
from disco_mt.core.toml import read_toml
from disco_mt.data.dataset import Dataset, Split
from disco_mt.decoding.options import DecodingOptions
from disco_mt.nn.config import LENGTHS, Length, ModelConfig
from disco_mt.nn.objective import ObjectiveOptions
from disco_mt.systems import check_model, decoder_for
from disco_mt.systems.objective import build_objective
from disco_mt.training.options import TrainingOptions
from disco_mt.training.start import StartOptions, lengths_to_start_from

FOLDER = Path(__file__).parent / "recipes"
_VOCABULARIES = ("source_vocabulary", "target_vocabulary")


@dataclass(frozen=True)
class Recipe:
    """One trained model."""

    model: ModelConfig = field(default_factory=ModelConfig)
    objective: ObjectiveOptions = field(default_factory=ObjectiveOptions)
    start: StartOptions = field(default_factory=StartOptions)
    training: TrainingOptions = field(default_factory=TrainingOptions)
    decoding: DecodingOptions = field(default_factory=DecodingOptions)

    def __post_init__(self) -> None:
        check_model(self.model)  # refuse what does not fit before any work
        decoder_for(self.model.kind, self.decoding.strategy, self.decoding.effort)
        build_objective(self.model.kind, self.objective)

    def for_data(self, dataset: Dataset) -> Recipe:
        """The same with the sizes that come from a dataset, and the length prior fitted to it."""
        source, target = dataset.text.source.vocabulary_size, dataset.text.target.vocabulary_size
        tying = self.model.tying
        if tying == "all" and not dataset.text.joint:
            raise UserError(
                f"model.tying 'all' needs a joint vocabulary, but {dataset.path} has separate ones; "
                "use model.tying 'decoder', or prepare with --vocabulary joint"
            )
        for key, size in zip(_VOCABULARIES, (source, target), strict=True):
            asked = getattr(self.model, key)
            if asked not in (size, getattr(ModelConfig, key)):
                raise UserError(
                    f"model.{key} is {asked}, but {dataset.path} has {size} entries; leave it out"
                )
        model = replace(self.model, source_vocabulary=source, target_vocabulary=target)
        lengths = longest_sentences(dataset)
        if self.start.model:
            lengths |= lengths_to_start_from(self.start, model)
        left_out: dict[str, Any] = {key: lengths[key] for key in LENGTHS if not getattr(model, key)}
        model = replace(model, **left_out)
        if model.length.prior and not model.length.fitted:
            model = replace(model, length=fit_length_prior(model.length, dataset.splits["train"]))
        return replace(self, model=model)

    def as_dict(self) -> dict[str, Any]:
        """For run.json and model cards."""
        return asdict(self)

    def as_toml(self) -> str:
        """The file of this recipe, every value in it but the vocabulary sizes, which come from a dataset."""
        content = self.as_dict()
        for key in _VOCABULARIES:
            del content["model"][key]
        return "\n".join(_tables(content, "")).lstrip() + "\n"


def load_recipe(name: str) -> Recipe:
    """A recipe file, or one that ships by its name."""
    path = find_recipe(name)
    return from_dict(Recipe, with_sizes_from_data(read_toml(path), str(path)), str(path))


def with_sizes_from_data(content: dict[str, Any], where: str) -> dict[str, Any]:
    """Lengths that are left out come from the data (0 says so); vocabulary sizes always do."""
    model = content.get("model", {})
    if not isinstance(model, dict):
        return content  # which from_dict refuses
    for key in _VOCABULARIES:
        if key in model:
            raise UserError(f"{where}: model.{key} comes from the dataset; remove it")
    return {**content, "model": dict.fromkeys(LENGTHS, 0) | model}


def longest_sentences(dataset: Dataset) -> dict[str, int]:
    """The lengths that a model needs for all sentences of a dataset."""
    splits = dataset.splits.values()
    source = max(int(split.source_lengths.max(initial=0)) for split in splits) + 1
    target = max(int(split.target_lengths.max(initial=0)) for split in splits) + 1
    return {"max_source": max(3, source), "max_target": max(3, target), "length_classes": max(3, target + 1)}


def find_recipe(name: str) -> Path:
    """The file of a recipe: a path, or the name of a shipped one."""
    shipped = FOLDER / f"{name}.toml"
    if shipped.is_file():
        return shipped
    if Path(name).is_file():
        return Path(name)
    raise UserError(f"there is no recipe {name!r}: neither a file nor one of {', '.join(shipped_recipes())}")


def shipped_recipes() -> list[str]:
    """Names of the recipes inside the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def _tables(content: dict[str, Any], name: str) -> Iterator[str]:
    """Lines of TOML: the plain values of a table (TOML writes them as JSON does), then the tables in it."""
    plain = {
        key: value for key, value in content.items() if value is not None and not isinstance(value, dict)
    }
    if plain:
        yield f"\n[{name}]"
    yield from (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in plain.items())
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _tables(value, f"{name}.{key}".lstrip("."))


_LEAST = 0.5  # tokens: no spread is narrower


def fit_length_prior(length: Length, split: Split) -> Length:
    """A straight line for the expected length, and one for the mean distance from it; EOS counts."""
    source, target = split.source_lengths + 1.0, split.target_lengths + 1.0
    # Long sentences miss by more: dividing by the root of the length weighs all alike.
    slope, offset = _line(source, target, 1 / np.sqrt(source))
    away = np.abs(target - slope * source - offset)
    spread_slope, spread = _line(source, away, 1 / np.sqrt(source))
    if spread_slope < 0:
        spread_slope, spread = 0.0, float(away.mean())
    spread = max(_LEAST - spread_slope * float(source.min()), spread)
    return replace(
        length,
        slope=round(slope, 4),
        offset=round(offset, 4),
        spread=round(max(0.0, spread), 4),
        spread_slope=round(spread_slope, 4),
    )


def _line(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Slope and offset of the weighted least-squares line; of one length alone, a flat one."""
    if x.min() == x.max():
        return 0.0, float(y.mean())
    slope, offset = np.polyfit(x, y, 1, w=weight)
    return float(slope), float(offset)
