"""Distil a corpus: open everything, translate the shards that are missing, put the dataset in place."""

from __future__ import annotations

import platform
import sys
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from safetensors import SafetensorError

from disco_mt.core.errors import UserError
from disco_mt.core.files import refuse_existing, sha256
from disco_mt.core.machine import package_version
from disco_mt.core.progress import Advance, stage
from disco_mt.core.settings import at_least, one_of
from disco_mt.data.dataset import Dataset, Side, id_type, read_description
from disco_mt.decoding.options import DecodingOptions
from disco_mt.distill.assemble import assemble
from disco_mt.distill.reuse import Reusable
from disco_mt.distill.shards import (
    FINISHED,
    Plan,
    finish,
    gather,
    plan_shards,
    read_shard,
    work_directory,
    write_shard,
)
from disco_mt.distill.sources import HeldOut, fingerprints, with_more, with_spliced
from disco_mt.distill.teacher import EngineName, check_engine, open_teacher
from disco_mt.engine.select import EngineOptions
from disco_mt.nn.directory import WEIGHTS, Directory, check_fits, read_config
from disco_mt.nn.find import find_model
from disco_mt.systems import strategy_for
from disco_mt.systems.autoregressive.decoding import check_beam
from disco_mt.translator import Translator
from disco_mt.version import __version__

RunnerName = Literal["local", "ray"]
Finished = tuple[int, list[tuple[int, ...]]]  # the number of a shard, and its translations


@dataclass(frozen=True)
class DistillOptions:
    """Who translates what, and how."""

    model: str
    """The teacher: a model directory, a shipped model, or the id of a model on the hub."""
    data: Path
    """Dataset directory made by `disco prepare`, with the teacher's tokenizers."""
    out: Path
    """Dataset directory to make; it must not exist yet. Unfinished work is kept beside it, in OUT.partial."""
    beam: int = 5
    """Beam size (autoregressive teachers; others use the default strategy of their kind)."""
    length_penalty: float | None = None
    """alpha: log P is divided by length ** alpha. None: the teacher's own, as when it is scored, else 1."""
    engine: EngineName = "torch"
    """What runs the teacher; ctranslate2 is a fast runtime for autoregressive ones."""
    shard_size: int = 2048
    """Sentences that are finished, and kept, together."""
    batch_tokens: int = 2048
    """Padded source tokens that are decoded together (engine torch)."""
    more_sources: tuple[Path, ...] = ()
    """Files with more sentences of the source language, one per line, plain or .gz: they are translated, too,
    but for those of valid and test."""
    splice: float = 0.0
    """New sources to make per training pair (2: twice as many as there are), each from the beginning of one
    sentence and the end of another; for small corpora. 0: none, as in the paper."""
    reuse: tuple[Path, ...] = ()
    """Datasets that this teacher has distilled in the same way: what is in them is not translated again."""
    device: str = "cpu"
    """cpu, cuda or mps (engine torch)."""
    runner: RunnerName = "local"
    """local: this process. ray: many, on this machine or on a Ray cluster; the output is the same."""
    workers: int = 0
    """Processes that translate side by side (runner ray); 0: as many as there is room for."""
    ray_address: str = ""
    """Of a Ray cluster, such as auto; without it RAY_ADDRESS counts, else Ray runs on this machine."""

    def __post_init__(self) -> None:
        check_beam(self.beam, 1.0 if self.length_penalty is None else self.length_penalty)
        one_of("engine", self.engine, get_args(EngineName))
        at_least("shard_size", self.shard_size, 1)
        at_least("batch_tokens", self.batch_tokens, 1)
        at_least("splice", self.splice, 0)
        one_of("runner", self.runner, get_args(RunnerName))
        at_least("workers", self.workers, 0)
        if self.runner == "local" and (self.workers or self.ray_address):
            raise UserError("--workers and --ray-address are for --runner ray; the runner is local")

    @property
    def decoding(self) -> DecodingOptions:
        """What the decoders want to know."""
        return DecodingOptions(beam=self.beam, length_penalty=self.length_penalty)


@dataclass(frozen=True)
class DistillReport:
    """What was made: pairs, and how many were dropped for which reason."""

    out: Path
    pairs: int
    dropped: dict[str, int]


def distill(options: DistillOptions, command: str = "", quiet: bool = False) -> DistillReport:
    """Make the dataset `options.out`. A run that was stopped goes on when it is called again.

    command: how this was called, for provenance.json.
    """
    refuse_existing(options.out)
    dataset = Dataset.open(options.data)
    description = read_description(options.data, "dataset.json", "a dataset directory")
    directory = read_config(find_model(options.model))
    here = options.device if options.runner == "local" else "cpu"  # workers have a teacher of their own
    teacher = Translator.from_pretrained(directory.path, EngineOptions(here))
    check_fits(directory, "teacher", options.data, description["text"])
    check_engine(directory, options.engine, options.device)
    if options.length_penalty is None:  # the teacher's own, with which it is scored
        own = teacher.defaults.length_penalty
        options = replace(options, length_penalty=1.0 if own is None else own)
    provenance = _provenance(options, dataset, directory, command)
    reusable = Reusable(options.reuse, provenance["settings"], description["text"])
    try:
        with work_directory(options.out, provenance) as folder:
            if not (folder / FINISHED).exists():
                more = with_more(dataset, options.more_sources)
                source = with_spliced(more, options.splice, HeldOut(dataset).has_ids)
                plan = plan_shards(source, teacher.model.config.longest_source, options.shard_size)
                work = _Work(folder, plan, source, reusable, id_type(dataset.text.target.vocabulary_size))
                _translate(work, teacher, options, quiet)
                assemble(folder, dataset, description, source, plan, gather(folder, plan.shards, work.dtype))
            finish(folder, options.out)
    except (OSError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(
            f"cannot write {options.out}: {reason}; finished shards are kept: fix this (free some space?) "
            "and give the same command again"
        ) from error
    train = read_description(options.out, "dataset.json", "a dataset directory")["splits"]["train"]
    return DistillReport(options.out, train["pairs"], train["dropped"])


@dataclass(frozen=True)
class _Work:
    """Shards: each depends on no other, and its translation on nothing but its sentences."""

    folder: Path
    plan: Plan
    source: Side
    reusable: Reusable
    dtype: np.dtype[Any]  # of the translations

    def sentences(self, number: int) -> list[list[int]]:
        """The sentences of a shard."""
        found = [self.source[pair].tolist() for pair in self.plan.sentences(number)]
        self.source.release()
        return found

    def unknown(self, number: int) -> list[list[int]]:
        """Those that have no translation yet."""
        return self.reusable.missing(self.sentences(number))

    def write(self, number: int, translations: Sequence[tuple[int, ...]]) -> None:
        """Keep a shard. translations: of what was unknown."""
        write_shard(
            self.folder, number, self.reusable.filled(self.sentences(number), translations), self.dtype
        )

    def missing(self) -> list[int]:
        """Numbers of the shards that are not finished."""
        shards = enumerate(self.plan.shards)
        return [number for number, shard in shards if read_shard(self.folder, number, len(shard)) is None]


def _translate(work: _Work, teacher: Translator, options: DistillOptions, quiet: bool) -> None:
    missing = work.missing()
    lengths = {number: [len(words) for words in work.unknown(number)] for number in missing}
    if not quiet:
        there = sum(len(work.plan.shards[number]) - len(lengths[number]) for number in missing)
        print(_announcement(work.plan, len(missing), there), file=sys.stderr)
    for number in (number for number in missing if not lengths[number]):
        work.write(number, [])
    # The longest sentences first: if memory is short, that shows at once.
    numbers = [number for number in reversed(missing) if lengths[number]]
    if numbers:
        run = _locally if options.runner == "local" else _on_ray
        with (
            stage("translating (source tokens)", sum(map(sum, lengths.values())), quiet) as advance,
            closing(run(numbers, work, teacher, options, advance)) as finished,
        ):
            for number, translations in finished:
                work.write(number, translations)


def _locally(
    numbers: Sequence[int], work: _Work, teacher: Translator, options: DistillOptions, advance: Advance
) -> Generator[Finished, None, None]:
    decoding, tokens = options.decoding, options.batch_tokens
    with open_teacher(teacher, options.engine, decoding, tokens, work.folder) as translate:
        for number in numbers:
            yield number, translate(work.unknown(number), advance)


def _on_ray(
    numbers: Sequence[int], work: _Work, teacher: Translator, options: DistillOptions, advance: Advance
) -> Generator[Finished, None, None]:
    from disco_mt.distill.on_ray import Cluster, Job, translate_on_ray

    model = find_model(options.model)
    job = Job(model, options.engine, options.decoding, options.batch_tokens, options.device)
    cluster = Cluster(options.ray_address, options.workers)
    with closing(translate_on_ray(numbers, work.unknown, job, cluster)) as finished:
        for number, translations in finished:
            advance(sum(map(len, work.unknown(number))))
            yield number, translations


def _announcement(plan: Plan, missing: int, reused: int) -> str:
    """reused: sentences of the missing shards that have a translation."""
    done = len(plan.shards) - missing
    before = f"; {done} were finished before" if done else ""
    return (
        f"{len(plan.first):,} different sentences of {len(plan.place):,} to translate, "
        f"in {len(plan.shards)} shards{before}" + (f"; {reused:,} are reused" if reused else "")
    )


def _provenance(
    options: DistillOptions, dataset: Dataset, teacher: Directory, command: str
) -> dict[str, Any]:
    """Where the targets come from. "settings" is all that they depend on: to go on, it must be the same."""
    strategy = strategy_for(teacher.model.kind, "")
    more = fingerprints(options.more_sources)
    packages = ("torch", "numpy", "tokenizers", *(["ctranslate2"] if options.engine == "ctranslate2" else []))
    return {
        "settings": {
            "teacher": {"weights_sha256": sha256(teacher.path / WEIGHTS), "model": asdict(teacher.model)},
            "data": {
                "dataset_json_sha256": dataset.fingerprint,
                **({"splice": options.splice} if options.splice else {}),
                **({"more_sources_sha256": more} if more else {}),
            },
            "decoding": {"engine": options.engine, **_asked_for(options.decoding), "strategy": strategy},
            "shards": {"shard_size": options.shard_size, "batch_tokens": options.batch_tokens},
        },
        "teacher": {
            "name": str(options.model),
            "kind": teacher.model.kind,
            "dev_bleu": _dev_bleu(teacher.extra),
            "averaged": teacher.extra.get("averaged"),
        },
        "data": str(options.data),
        "command": command,
        "versions": {
            "disco_mt": __version__,
            "python": platform.python_version(),
            **{name: package_version(name) for name in packages},
        },
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _asked_for(options: DecodingOptions) -> dict[str, Any]:
    """Without names that are left empty: an option that is added one day makes no other distillation."""
    return {name: value for name, value in asdict(options).items() if value != ""}


def _dev_bleu(extra: dict[str, Any]) -> float | None:
    """The score that `disco train` noted down; a mean of models has those of its parts instead."""
    dev = extra.get("dev")
    return dev.get("bleu") if isinstance(dev, dict) else None
