"""A suite: a whole experiment as one TOML file, from the corpus to the tables.

    about = "one line for `disco suite list`"
    like = "OTHER"                   # take over all of another suite: one that ships, or a file beside this
    without = ["NAME"]               # ... but these of its systems
    average = 5                      # checkpoints to average; left out: chosen by dev BLEU
    reports = ["main"]               # the tables and figures it ends with (`disco experiment` lists them)
    [data]                           # DataOptions: which corpus, which languages
    [prepare]                        # Preparation
    [distill]                        # Distillation: who teaches, and how its translations are found
    [distill.more.NAME]              # MoreSources: data of this name have more sources than the corpus
    [choose]                         # Choice: values to train each system with; the best by dev BLEU is kept
    [model] [objective] [training] [decoding]      # of every system: the sections of a recipe (recipe.py)
    [systems.NAME]                   # one trained model
    data = "raw"                     # or "distilled", a name from distill.more, or a part: "distilled/16"
    like = "OTHER"                   # inherit from that system
    start = "OTHER"                  # begin with that system's weights
    model.kind = "autoregressive"    # any key of a recipe
    evaluate.strategy = "beam"       # decoding of the test set, if it differs from that of the dev set

What is left out has the default of a recipe. workspace.py turns it into stages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from disco_mt.core.errors import UserError
from disco_mt.core.settings import at_least, from_dict
from disco_mt.core.toml import merged, read_toml, refuse_unknown, subtable
from disco_mt.data.prepare import PrepareProcessing
from disco_mt.data.sources import Languages, Parts, SourceName
from disco_mt.decoding.options import DecodingOptions
from disco_mt.distill.run import RunnerName
from disco_mt.distill.teacher import EngineName
from disco_mt.systems import decoder_for
from disco_mt.systems.autoregressive.decoding import check_beam
from disco_mt.text.pair import Vocabulary
from disco_mt.training.recipe import Recipe, with_sizes_from_data

SUITES = Path(__file__).parent
DataKind = Literal["raw", "distilled", "extended", "part"]  # extended: distilled, with more sources
_RECIPE = ("model", "objective", "training", "decoding")
_SHARED = (*_RECIPE, "evaluate", "choose")
_HEAD = ("data", "about", "average", "reports", "prepare")
_SYSTEM = ("data", "like", "start", *_SHARED)


@dataclass(frozen=True)
class DataOptions:
    """Which corpus; data/sources.py knows its files."""

    source: SourceName
    languages: tuple[str, str] = ("en", "de")
    """Source and target."""
    limit: int = 0
    """Training pairs to use, a fixed sample (a larger one has every smaller one in it); 0 = all."""
    parts: Parts = field(default_factory=Parts)
    """Source mtdata only: which corpora."""

    def __post_init__(self) -> None:
        at_least("data.limit", self.limit, 0)
        if (self.source == "mtdata") != (self.parts != Parts()):
            raise UserError(
                "data.source mtdata and the table [data.parts] go together; one of them is missing"
            )
        if len(self.languages) != 2 or not all(isinstance(each, str) for each in self.languages):
            raise UserError(f'data.languages must be two codes such as ["en", "de"], got {self.languages!r}')


@dataclass(frozen=True)
class Preparation:
    """Options of `disco prepare`."""

    vocabulary: Vocabulary = "joint"
    vocabulary_size: int = 32_000
    processing: PrepareProcessing = "raw"
    max_length: int = 250
    max_ratio: float = 3.0


@dataclass(frozen=True)
class MoreSources:
    """What a teacher translates beside the sources of the corpus."""

    splice: float = 0.0
    """Made-up sources to make a training pair (distill/sources.py)."""
    also_from: tuple[str, ...] = ()
    """Other pairs of the corpus, such as en-fr: their sources are translated too (distill/sources.py)."""

    @property
    def other_pairs(self) -> list[Languages]:
        """`also_from` as languages."""
        return [(source, target) for source, _, target in (pair.partition("-") for pair in self.also_from)]


@dataclass(frozen=True)
class Distillation:
    """Options of `disco distill`, and which system is the teacher."""

    teacher: str
    beam: int = 5
    length_penalty: float | None = None
    """None: that of the teacher's test scores (evaluate.length_penalty)."""
    engine: EngineName = "torch"
    shard_size: int = 2048
    batch_tokens: int = 2048
    runner: RunnerName = "local"
    """local, or ray: on many machines. What is made does not depend on it."""
    more: dict[str, MoreSources] = field(default_factory=dict)
    """Data with more sources, by the name that systems call them."""

    def __post_init__(self) -> None:
        check_beam(self.beam, 1.0 if self.length_penalty is None else self.length_penalty)
        at_least("distill.shard_size", self.shard_size, 1)
        at_least("distill.batch_tokens", self.batch_tokens, 1)
        for name, more in self.more.items():
            _check_more(name, more)

    @property
    def plain(self) -> Distillation:
        """Of the corpus alone, as in the paper."""
        return replace(self, more={})


@dataclass(frozen=True)
class Choice:
    """Values that a system is trained with, one training each; the best by dev BLEU is kept."""

    dropout: tuple[float, ...] = ()
    """Of the model; empty: no choice, there is one training."""

    def __post_init__(self) -> None:
        if len({*self.dropout}) != len(self.dropout):
            raise UserError(f"choose.dropout must be different values, got {list(self.dropout)}")


@dataclass(frozen=True)
class System:
    """One trained model: what it learns from, its recipe, and how it decodes the test set."""

    data: str
    """raw, distilled, or a name from distill.more; NAME/16 is a sixteenth of the pairs of NAME."""
    recipe: Recipe
    evaluate: DecodingOptions
    choose: Choice = field(default_factory=Choice)
    start: str = ""
    """An earlier system that provides the initial weights; empty: random ones."""

    def __post_init__(self) -> None:
        decoder_for(self.recipe.model.kind, self.evaluate.strategy, self.evaluate.effort)
        for value in self.choose.dropout:
            self.with_dropout(value)  # which refuses what is no dropout

    @property
    def data_kind(self) -> DataKind:
        """What an experiment needs to know of the data."""
        if "/" in self.data:
            return "part"
        return "raw" if self.data == "raw" else "distilled" if self.data == "distilled" else "extended"

    def with_dropout(self, value: float) -> Recipe:
        """The recipe of one of the trainings."""
        return replace(self.recipe, model=replace(self.recipe.model, dropout=value))


@dataclass(frozen=True)
class Suite:
    """A whole experiment."""

    name: str
    about: str
    data: DataOptions
    systems: dict[str, System]
    prepare: Preparation = field(default_factory=Preparation)
    distill: Distillation | None = None
    average: int = 0
    """Checkpoints that are averaged; 0: as many as give the best dev BLEU."""
    reports: tuple[str, ...] = ()
    """The experiments to end with."""
    path: Path | None = field(default=None, compare=False)
    """The file that it comes from."""

    def __post_init__(self) -> None:
        at_least("average", self.average, 0)
        if not self.systems:
            raise UserError("there are no systems; add a table such as [systems.teacher]")
        for name, system in self.systems.items():
            if system.data != "raw" and self.distill is None:
                raise UserError(f"systems.{name} wants {system.data} data, but there is no [distill] table")
            _check_data(name, system.data, self.distill)
        if self.distill is not None:
            _check_teacher(self.distill.teacher, self.systems)
            for name, more in self.distill.more.items():
                _check_other_pairs(name, more, self.data)
        _check_starts(self.systems)

    def system(self, name: str) -> System:
        """A system by its name, or a refusal that lists them."""
        if name not in self.systems:
            raise UserError(f"{self.name} has no system {name!r}; there are: {', '.join(self.systems)}")
        return self.systems[name]

    def trainings(self, name: str) -> dict[str, Recipe]:
        """The trainings of a system: one of its own name, or NAME@VALUE for each value to choose from."""
        system = self.system(name)
        chosen = {f"{name}@{value}": system.with_dropout(value) for value in system.choose.dropout}
        return chosen or {name: system.recipe}

    def training(self, label: str) -> Recipe:
        """One of the trainings; of a system with a choice, named without a value, the recipe before it."""
        name = label.partition("@")[0]
        known = {name: self.system(name).recipe} | self.trainings(name)
        if label not in known:
            raise UserError(f"{self.name} has no training {label!r}; there are: {', '.join(known)}")
        return known[label]


def load_suite(name_or_path: str | Path) -> Suite:
    """A suite file, or one that ships by its name."""
    path = find_suite(name_or_path)
    content = _content(path, ())
    try:
        return replace(_suite(path.stem, content), path=path)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _content(path: Path, heirs: tuple[Path, ...]) -> dict[str, Any]:
    """The tables of a file, over those of the suite that it is `like`: one that ships, or one beside it."""
    own = read_toml(path)
    like = own.pop("like", None)
    if like is None:
        return own
    without = own.pop("without", [])
    beside = path.parent / str(like)
    under = beside if beside.is_file() else SUITES / f"{like}.toml"
    if not under.is_file() or under in (path, *heirs):
        raise UserError(f"{path}: like must name another suite, got {like!r}")
    inherited = _content(under, (*heirs, path))
    _leave_out(inherited.get("systems", {}), without, path)
    return merged(inherited, own)


def _leave_out(systems: dict[str, Any], without: Any, path: Path) -> None:
    """Forget systems of the other suite. One that another is `like` cannot go: _inherited says so."""
    unknown = without if not isinstance(without, list) else [name for name in without if name not in systems]
    if unknown:
        raise UserError(
            f"{path}: without must list systems of the other suite ({', '.join(systems)}), got {unknown!r}"
        )
    for name in without:
        del systems[name]


def find_suite(name_or_path: str | Path) -> Path:
    """The file of a suite: a path, or the name of a shipped one."""
    shipped = SUITES / f"{name_or_path}.toml"
    if shipped.is_file():
        return shipped
    if Path(name_or_path).is_file():
        return Path(name_or_path)
    raise UserError(
        f"there is no suite {str(name_or_path)!r}: neither a file nor one of {', '.join(shipped_suites())}"
    )


def shipped_suites() -> list[str]:
    """Names of the suites inside the package."""
    return sorted(path.stem for path in SUITES.glob("*.toml"))


@dataclass(frozen=True)
class _Head:
    """The part of a suite file that needs no interpretation."""

    data: DataOptions
    about: str = ""
    average: int = 0
    reports: tuple[str, ...] = ()
    prepare: Preparation = field(default_factory=Preparation)


def _suite(name: str, content: dict[str, Any]) -> Suite:
    refuse_unknown(content, (*_HEAD, "distill", "systems", *_SHARED), "")
    if "source" not in subtable(content, "data", needed=True):
        raise UserError(f"data.source is missing; there are: {', '.join(get_args(SourceName))}")
    head = from_dict(_Head, {key: content[key] for key in _HEAD if key in content}, "suite")
    distill = _distillation(subtable(content, "distill"))
    values = {key: getattr(head, key) for key in _HEAD}
    return Suite(name=name, systems=_systems(content), distill=distill, **values)


def _distillation(table: dict[str, Any]) -> Distillation | None:
    if table and "teacher" not in table:
        raise UserError("distill.teacher is missing: name the system that translates the training data")
    sets = subtable(table, "more", "distill.")
    more = {
        name: from_dict(MoreSources, subtable(sets, name, "distill.more."), f"distill.more.{name}")
        for name in sets
    }
    rest = {key: value for key, value in table.items() if key != "more"}
    return replace(from_dict(Distillation, rest, "distill"), more=more) if table else None


def _check_more(name: str, more: MoreSources) -> None:
    if name in get_args(DataKind)[:2] or not re.fullmatch(r"[\w.-]+", name):
        raise UserError(
            f"distill.more.{name}: choose another name for the data, of letters, digits and -; "
            "raw and distilled are those of the corpus"
        )
    at_least(f"distill.more.{name}.splice", more.splice, 0)
    if more == MoreSources():
        raise UserError(f"distill.more.{name} has no more sources: set splice, such as 2.0, or also_from")


def _check_data(system: str, data: str, distill: Distillation | None) -> None:
    known = ["raw", "distilled", *(distill.more if distill else ())]
    name, _, part = data.partition("/")
    if name not in known:
        raise UserError(
            f"systems.{system}: data must be one of {', '.join(known)}, got {data!r}; others need a table "
            f"[distill.more.{name}]"
        )
    if "/" in data and not (part.isdecimal() and int(part) > 1):
        raise UserError(
            f"systems.{system}: a part of the data is written {name}/16 (a sixteenth of the pairs), "
            f"got {data!r}"
        )


def _check_teacher(teacher: str, systems: dict[str, System]) -> None:
    if teacher not in systems:
        raise UserError(f"distill.teacher {teacher!r} is not a system; there are: {', '.join(systems)}")
    if systems[teacher].data != "raw":
        raise UserError(f'distill.teacher {teacher!r} must have data = "raw": it cannot be its own student')


def _check_other_pairs(name: str, more: MoreSources, data: DataOptions) -> None:
    key = f"distill.more.{name}.also_from"
    if more.also_from and data.source != "tatoeba":
        raise UserError(f"{key} is for source tatoeba, which has many pairs; got {data.source}")
    for pair, (source, target) in zip(more.also_from, more.other_pairs, strict=True):
        if source != data.languages[0] or target in ("", data.languages[1]):
            raise UserError(
                f"{key} must be other pairs of the same source language, such as "
                f"{data.languages[0]}-{'de' if data.languages[1] == 'fr' else 'fr'}; got {pair!r}"
            )


def _check_starts(systems: dict[str, System]) -> None:
    names = sorted(systems, key=lambda name: systems[name].data != "raw")  # as they are trained
    for name, system in systems.items():
        before = names[: names.index(name)]
        if system.start and system.start not in before:
            raise UserError(
                f"systems.{name}: start must name a system that is trained before it ({', '.join(before)}), "
                f"got {system.start!r}"
            )


def _systems(content: dict[str, Any]) -> dict[str, System]:
    shared = {name: subtable(content, name) for name in _SHARED}
    tables = subtable(content, "systems")
    for name in tables:
        if "@" in name:
            raise UserError(f"systems.{name}: a name must not have @ in it")
    return {name: _system(name, merged(shared, _inherited(name, tables, ()))) for name in tables}


def _inherited(name: str, tables: dict[str, Any], heirs: tuple[str, ...]) -> dict[str, Any]:
    """The table of a system, over that of the system it is `like`."""
    own = subtable(tables, name, "systems.")
    refuse_unknown(own, _SYSTEM, f"systems.{name}: ")
    like = own.get("like")
    if like is None:
        return own
    if like not in tables or like in (name, *heirs):
        raise UserError(f"systems.{name}: like must name another system, got {like!r}")
    return merged(_inherited(like, tables, (*heirs, name)), own)


def _system(name: str, table: dict[str, Any]) -> System:
    where = f"systems.{name}"
    data = table.get("data", "raw")
    if not isinstance(data, str):
        raise UserError(f"{where}: data must be a name such as raw or distilled, got {data!r}")
    recipe = with_sizes_from_data({key: table[key] for key in _RECIPE}, where)
    try:
        return System(
            data=data,
            recipe=from_dict(Recipe, recipe, where),
            evaluate=from_dict(DecodingOptions, table["decoding"] | table["evaluate"], f"{where}: evaluate"),
            choose=from_dict(Choice, table["choose"], f"{where}: choose"),
            start=table.get("start", ""),
        )
    except UserError as error:  # such as an objective that does not fit the model
        raise error if str(error).startswith(where) else UserError(f"{where}: {error}") from None
