"""Translations of the dev and test sets, made once: every table takes them from the workspace's cache.

FOLDER/hypotheses/SYSTEM/SPLIT-HASH.jsonl has one line per sentence (text, steps, score, tokens); the .json
beside it says what made them and how long it took. The hash is over the weights, the sources and the decoding
options, so that a new model never meets old translations.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch

from disco_mt.core.errors import UserError
from disco_mt.core.files import sha256, write_text
from disco_mt.core.progress import stage
from disco_mt.data.dataset import Dataset, Split
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.engine.select import EngineOptions
from disco_mt.evaluation.quality import Quality, measure
from disco_mt.evaluation.tune import TRIES, Tried, Weight, choose, tune, with_weight
from disco_mt.reporting.timing import Timing, spread, take_turns
from disco_mt.reporting.verdicts import Judge
from disco_mt.suites.roles import BEAM, Role, system_for
from disco_mt.suites.suite import Suite
from disco_mt.suites.workspace import Workspace
from disco_mt.systems import SYSTEMS
from disco_mt.text.lines import read_lines
from disco_mt.translator import Translator

SplitName = Literal["valid", "test"]
FORMAT = 1  # of the cache; part of every hash


@dataclass(frozen=True)
class Decoding:
    """One row of a table: a system, how it decodes, and what reranks its candidates ("self" or a system)."""

    system: str
    options: DecodingOptions
    rerank_with: str = ""

    def settings(self) -> dict[str, Any]:
        """The options that matter to this strategy; others would only give one translation several names."""
        settings: dict[str, Any] = {"strategy": self.options.strategy}
        names = _options_read(self.options.strategy)
        for name in names:
            settings[name] = getattr(self.options, name)
        if "length_penalty" in names:
            settings["length_penalty"] = self.options.alpha
            if self.options.alpha == 1 and "beam" not in names:
                del settings["length_penalty"]
        if self.options.effort == "high":
            settings["effort"] = "high"
        if self.rerank_with or "length_weight" in names:
            settings["length_weight"] = self.options.weight
        return settings

    def slug(self, without: str = "") -> str:
        """A name for files, such as disco.easy-first.T10.K5; `without` one of the settings."""
        short = {"iterations": "T", "length_beam": "K", "beam": "b", "length_penalty": "alpha"}
        short["length_weight"] = "weight"
        kept = {name: value for name, value in self.settings().items() if name != without}
        parts = [f"{short[name]}{value:g}" for name, value in kept.items() if name in short]
        how = ["high"] if self.options.effort == "high" else []
        how += [f"reranked-{self.rerank_with}"] if self.rerank_with else []
        return ".".join([self.system, self.options.strategy, *how, *parts])


@dataclass(frozen=True)
class Hypotheses:
    """The translations of a split."""

    decoding: Decoding
    split: SplitName
    texts: tuple[str, ...]
    steps: tuple[int, ...]
    tokens: tuple[int, ...]  # lengths
    seconds: float  # batched: not a measurement of speed

    @property
    def mean_steps(self) -> float:
        """The paper's Step."""
        return sum(self.steps) / len(self.steps)


class Lab:
    """A workspace's models at work: decode, choose on dev, score."""

    def __init__(
        self, workspace: Workspace, samples: int = 1000, device: str = "cpu", quiet: bool = True
    ) -> None:
        self.workspace = workspace
        self.samples = samples
        self.device = device
        self.quiet = quiet
        self.used: dict[tuple[str, str], Hypotheses] = {}  # by split and slug: what an export writes
        self.choices: dict[str, str] = {}  # what was chosen on dev
        self._translators: dict[tuple[str, str, str], Translator] = {}

    @property
    def suite(self) -> Suite:
        """What the workspace works on."""
        return self.workspace.suite

    def system(self, role: Role) -> str:
        """The suite's name for a role."""
        return system_for(self.suite, role)

    def dataset(self) -> Dataset:
        """Dev and test are those of the raw pairs, whatever a system was trained on."""
        return _open(self.workspace.dataset("raw"))

    @property
    def papers_corpus(self) -> bool:
        """Is it one of the paper's corpora, so that its tokenised BLEU means something?"""
        return self.suite.data.source == "mtdata"

    def sources(self, split: SplitName) -> list[str]:
        """The sentences to translate."""
        return self._split(split).source_text()

    def references(self, split: SplitName) -> list[list[str]]:
        """All references of each sentence."""
        return self._split(split).references()

    def judge(self, split: SplitName) -> Judge:
        """Compares systems on a split."""
        return Judge(self.references(split), self.language, self.samples)

    @property
    def language(self) -> str:
        """The target language."""
        return self.dataset().text.target.language

    def updates(self) -> dict[str, int]:
        """Updates of the models that were used, as far as their training logs are there."""
        names = {found.decoding.system for found in self.used.values()}
        return {
            name: self.workspace.updates(name)
            for name in self.suite.systems
            if name in names and self.workspace.is_trained(name)
        }

    def translator(self, decoding: Decoding, engine: str = "reference") -> Translator:
        """The loaded model, with its reranker.

        Times are compared on equal terms, by the plain algorithms. Engine "" is the fastest, which finds the
        same translations in the same steps.
        """
        key = decoding.system, decoding.rerank_with, engine
        if key not in self._translators:
            other = decoding.rerank_with
            reranker = other if other in ("", "self") else self.workspace.model(other)
            path, threads = self.workspace.model(decoding.system), torch.get_num_threads()
            self._translators[key] = Translator.from_pretrained(
                path, EngineOptions(self.device, engine, threads=threads), reranker or "none"
            )
        return self._translators[key]

    def decode(self, decoding: Decoding, split: SplitName) -> Hypotheses:
        """The translations of a split, from the cache if they are there."""
        description = self._description(decoding, split)
        path = self._cache(decoding.system, split, description)
        if not path.with_suffix(".jsonl").exists() or not path.with_suffix(".json").exists():
            self._translate(decoding, split, path, description)
        found = _read(path, decoding, split, len(self.sources(split)))
        self.used[split, decoding.slug()] = found
        return found

    def decode_all(self, decodings: Mapping[str, Decoding], split: SplitName) -> dict[str, Hypotheses]:
        """The translations of a split by each decoding, by its label."""
        return {label: self.decode(decoding, split) for label, decoding in decodings.items()}

    def quality(self, found: Hypotheses, paper_bleu: bool = False) -> Quality:
        """Scores of translations."""
        return measure(found.texts, self.references(found.split), self.language, paper_bleu)

    def tuned(self, decoding: Decoding, weight: Weight) -> Decoding:
        """The same decoding with the value of a weight that dev chooses (evaluation.tune)."""
        description = {**self._description(decoding, "valid"), "tuned": weight}
        path = self._cache(decoding.system, f"tuned-{weight}", description).with_suffix(".json")
        if not path.exists():
            translator, found = self.translator(decoding, engine=""), []
            lines, references = self.sources("valid"), self.references("valid")
            with stage(f"{decoding.system}: tuning {weight}", TRIES, self.quiet) as advance:
                for each in tune(translator, lines, references, decoding.options, weight):
                    found.append(each)
                    advance(1)
            write_text(path, json.dumps({**description, "scores": found}, indent=1) + "\n")
        tried = [Tried(*each) for each in json.loads(path.read_text(encoding="utf-8"))["scores"]]
        value = choose(tried)
        self.choices[f"{decoding.slug(without=weight)}: {weight}"] = f"{value:g}"
        return replace(decoding, options=with_weight(decoding.options, weight, value))

    def beam(self, system: str) -> Decoding:
        """Beam 5 with the length penalty that is best on dev, as the paper has it for every AT model."""
        return self.tuned(Decoding(system, BEAM), "length_penalty")

    def timed(self, decodings: Mapping[str, Decoding], sentences: int, repeats: int) -> Timing:
        """The time of each decoding, one test sentence at a time."""
        texts = spread(self.sources("test"), sentences)
        return take_turns({label: self._run(each) for label, each in decodings.items()}, texts, repeats)

    @property
    def runtime(self) -> str:
        """What the clock of `timed` measured, for a report."""
        return f"{torch.get_num_threads()} thread(s), float32, torch {torch.__version__}"

    def _run(self, decoding: Decoding) -> Callable[[str], object]:
        translator = self.translator(decoding)
        return lambda text: translator.translate(text, decoding.options)

    def _split(self, name: SplitName) -> Split:
        splits = self.dataset().splits
        if name not in splits:
            raise UserError(f"{self.dataset().path} has no {name} split, which this experiment needs")
        return splits[name]

    def _description(self, decoding: Decoding, split: SplitName) -> dict[str, Any]:
        """All that the translations follow from."""
        models = [
            decoding.system,
            *([decoding.rerank_with] if decoding.rerank_with not in ("", "self") else []),
        ]
        return {
            "format": FORMAT,
            "system": decoding.system,
            "decoding": decoding.settings(),
            "rerank_with": decoding.rerank_with,
            "split": split,
            "weights": {name: _weights(self.workspace.model(name)) for name in models},
            "sources": _hash(self.sources(split)),
        }

    def _cache(self, system: str, name: str, description: dict[str, Any]) -> Path:
        key = _hash([json.dumps(description, sort_keys=True)])[:12]
        return self.workspace.folder / "hypotheses" / system / f"{name}-{key}"

    def _translate(
        self, decoding: Decoding, split: SplitName, path: Path, description: dict[str, Any]
    ) -> None:
        translator, lines = self.translator(decoding, engine=""), self.sources(split)
        started = time.perf_counter()
        with stage(f"{decoding.slug()} on {split}", len(lines), self.quiet) as advance:
            found = translator.translate(lines, decoding.options, DecodeRequest(progress=advance))
        seconds = time.perf_counter() - started
        rows = [
            {"text": each.text, "steps": each.steps, "score": each.score, "tokens": len(each.tokens)}
            for each in found
        ]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        write_text(path.with_suffix(".jsonl"), text)
        write_text(
            path.with_suffix(".json"), json.dumps({**description, "seconds": seconds}, indent=1) + "\n"
        )


def _read(path: Path, decoding: Decoding, split: SplitName, sentences: int) -> Hypotheses:
    rows = [json.loads(line) for line in read_lines(path.with_suffix(".jsonl"))]
    if len(rows) != sentences:
        raise UserError(
            f"{path}.jsonl has {len(rows)} translations of {sentences} sentences; remove it, it is made again"
        )
    seconds = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))["seconds"]
    texts, steps = tuple(row["text"] for row in rows), tuple(row["steps"] for row in rows)
    return Hypotheses(decoding, split, texts, steps, tuple(row["tokens"] for row in rows), seconds)


def _options_read(strategy: str) -> tuple[str, ...]:
    """What a strategy reads: the same in every system that has it."""
    decoders = [system.decoders[strategy] for system in SYSTEMS.values() if strategy in system.decoders]
    return decoders[0].options if decoders else ()


@cache
def _open(path: Path) -> Dataset:
    return Dataset.open(path)


@cache
def _weights(directory: Path) -> str:
    return sha256(directory / "model.safetensors")


def _hash(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()
