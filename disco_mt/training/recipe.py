"""A recipe: all that makes one trained model, as a TOML file that a person can read and change.

Sections: [model] (nn/config.py), [objective] (systems/objective.py), [start] (start.py), [training]
(training/options.py) and [decoding], the way dev BLEU is measured (decoding/options.py). What is left out
has the paper's value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from disco_mt.core.errors import UserError
from disco_mt.core.settings import from_dict
from disco_mt.core.toml import read_toml
from disco_mt.data.dataset import Dataset
from disco_mt.decoding.options import DecodingOptions
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.objective import ObjectiveOptions
from disco_mt.systems import check_model, decoder_for
from disco_mt.systems.objective import build_objective
from disco_mt.training.length_prior import fit_length_prior
from disco_mt.training.options import TrainingOptions
from disco_mt.training.start import StartOptions

FOLDER = Path(__file__).parent / "recipes"
_FROM_DATA = ("source_vocabulary", "target_vocabulary")


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
        """The same with the vocabulary sizes of a dataset, and with the prior of the lengths fitted to it."""
        source, target = dataset.text.source.vocabulary_size, dataset.text.target.vocabulary_size
        tying = self.model.tying
        if tying == "all" and not dataset.text.joint:
            raise UserError(
                f"model.tying 'all' needs a joint vocabulary, but {dataset.path} has separate ones; "
                "use model.tying 'decoder', or prepare with --vocabulary joint"
            )
        for key, size in zip(_FROM_DATA, (source, target), strict=True):
            asked = getattr(self.model, key)
            if asked not in (size, getattr(ModelConfig, key)):
                raise UserError(
                    f"model.{key} is {asked}, but {dataset.path} has {size} entries; leave it out"
                )
        model = replace(self.model, source_vocabulary=source, target_vocabulary=target)
        if model.length.prior and not model.length.fitted:
            model = replace(model, length=fit_length_prior(model.length, dataset.splits["train"]))
        return replace(self, model=model)

    def as_dict(self) -> dict[str, Any]:
        """For run.json and model cards."""
        return asdict(self)

    def as_toml(self) -> str:
        """The file of this recipe, every value in it but the vocabulary sizes, which come from a dataset."""
        content = self.as_dict()
        for key in _FROM_DATA:
            del content["model"][key]
        return "\n".join(_tables(content, "")).lstrip() + "\n"


def load_recipe(name: str) -> Recipe:
    """A recipe file, or one that ships by its name."""
    path = find_recipe(name)
    content = read_toml(path)
    refuse_sizes_of_the_data(content, str(path))
    return from_dict(Recipe, content, str(path))


def refuse_sizes_of_the_data(content: dict[str, Any], where: str) -> None:
    """Vocabulary sizes are no choice of a recipe."""
    model = content.get("model")
    for key in _FROM_DATA:
        if isinstance(model, dict) and key in model:
            raise UserError(f"{where}: model.{key} comes from the dataset; remove it")


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
