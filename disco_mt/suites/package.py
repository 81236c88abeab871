"""A trained system as a model to pass on: half precision, with a card that says what it is and how good.

The scores and the examples of the card come from the very weights that are written, after rounding. How the
model decodes is chosen on dev and written with the weights: its length penalty or, if it was trained for that
and is better so, that it reranks its own candidates.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory, refuse_existing, write_text
from disco_mt.core.progress import stage
from disco_mt.data.dataset import Dataset, Split
from disco_mt.decoding.options import DecodingDefaults, DecodingOptions
from disco_mt.engine.select import EngineOptions, make_engine
from disco_mt.evaluation.quality import Quality, measure, to_json
from disco_mt.evaluation.tune import TRIES, Tried, Weight, choose, tune, with_weight
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.directory import CARD, WEIGHTS, Directory, read_config, save_model
from disco_mt.reporting.tables import Table, markdown, number
from disco_mt.reporting.verdicts import Judge
from disco_mt.suites.stages import non_defaults
from disco_mt.suites.workspace import Workspace
from disco_mt.systems import decoder_for, strategy_for
from disco_mt.systems.build import load_weights, reranker_of
from disco_mt.text.pair import TextPair
from disco_mt.translator import Translator

NOTICE = "NOTICE"
PLAIN, RERANKED, HIGH = "this model", "this model, reranking its own candidates", "this model, effort high"
ATTRIBUTION = {
    "tatoeba": "It was trained on sentences of the Tatoeba project (https://tatoeba.org) and their "
    "translations,\nwritten by its contributors and licensed under CC-BY 2.0 FR "
    "(https://creativecommons.org/licenses/by/2.0/fr/).",
    "phrasebook": "It was trained on sentences that Disco generates.",
}
"""What a model must say about its data, by source. A source that is not here does not allow passing it on."""

EVERYDAY = (
    "How long have you lived here?",
    "Good morning, how are you today?",
    "Where is the nearest train station?",
    "I would like a cup of coffee, please.",
    "What time does the shop open on Sunday?",
    "My brother is taller than me.",
    "She forgot to close the window last night.",
    "Could you help me carry this box?",
    "We are going to the lake if the weather is good.",
    "I don't think he knows the answer.",
    "The children are playing in the garden.",
    "How much does this book cost?",
    "I have been learning German for two years.",
    "He said that he would call you tomorrow.",
    "There is no milk left in the fridge.",
    "Please don't tell anyone about this.",
    "The train to Berlin leaves in ten minutes.",
    "If I had more time, I would read more books.",
    "Why didn't you tell me that you were ill?",
    "Thank you very much for your help.",
)
"""Everyday English for people to judge a model by; not from any corpus."""


@dataclass(frozen=True)
class Setting:
    """A model (with its reranker, if it has one) and how it decodes, with the weight chosen on dev."""

    translator: Translator
    options: DecodingOptions
    dev_bleu: float

    @property
    def defaults(self) -> DecodingDefaults:
        """What the model's config.json says, so that everyone decodes like this."""
        if self.translator.reranker is None:
            return DecodingDefaults(length_penalty=self.options.length_penalty)
        return DecodingDefaults(length_weight=self.options.length_weight, rerank="self")


@dataclass(frozen=True)
class Scored:
    """A model on the test set."""

    options: DecodingOptions
    quality: Quality
    steps: float
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Packaged:
    """What was written."""

    out: Path
    megabytes: float  # of the weights
    scored: Scored


def package(workspace: Workspace, system: str, out: Path, quiet: bool = True) -> Packaged:
    """Write the averaged model of a system into the new directory `out`, for others to use."""
    refuse_existing(out)
    source = workspace.suite.data.source
    directory = read_config(workspace.model(system))
    if source not in ATTRIBUTION:
        raise UserError(
            f"a model of {workspace.suite.name} may not be passed on: its data ({source}) do not allow it; "
            f"models of these sources may: {', '.join(ATTRIBUTION)}"
        )
    return _Packager(workspace, system, quiet).write(directory, out)


@dataclass(frozen=True)
class _Packager:
    """Chooses on dev, scores the test set, and writes."""

    workspace: Workspace
    system: str
    quiet: bool

    def write(self, directory: Directory, out: Path) -> Packaged:
        model = load_weights(directory).half().float()  # as loaded from the half-precision file
        settings = self._settings(self._translator(model, directory))
        shipped = max(settings, key=lambda name: settings[name].dev_bleu if name != HIGH else -1.0)
        scored = self._test(settings[shipped])
        extra = self._without_folders(directory.extra) | {
            "test": to_json(scored.quality) | {"steps": scored.steps},
            "decoding": non_defaults(settings[shipped].defaults),
        }
        others = {name: self._test(each) for name, each in settings.items() if name != shipped}
        rows = {shipped: scored} | others | self._teacher(settings[shipped])
        with atomic_directory(out) as temporary:
            for name in {directory.text[side]["file"] for side in ("source", "target")}:
                shutil.copyfile(directory.path / name, temporary / name)
            save_model(temporary, model, directory.text, "", extra, torch.float16)
            packaged = Packaged(out, (temporary / WEIGHTS).stat().st_size / 1e6, scored)
            write_text(temporary / CARD, self._card(packaged, rows, settings[shipped]))
            attribution = ATTRIBUTION[self.workspace.suite.data.source]
            write_text(temporary / NOTICE, f"{out.name}, a translation model of Disco.\n{attribution}\n")
        return packaged

    def _without_folders(self, extra: dict[str, Any]) -> dict[str, Any]:
        """What is known of the training; the model that it started from is named, not its folder."""
        recipe = extra.get("recipe", {})
        if "start" not in recipe:
            return extra
        start = recipe["start"] | {"model": self.workspace.suite.system(self.system).start}
        return extra | {"recipe": recipe | {"start": start}}

    def _translator(self, model: TranslationModel, directory: Directory) -> Translator:
        """With its default engine, or for an autoregressive model the one that distils."""
        distill = self.workspace.suite.distill
        text = TextPair.load(directory.path, directory.text)
        searching = model.config.kind == "autoregressive"
        name = "ctranslate2" if searching and distill and distill.engine == "ctranslate2" else ""
        return Translator(model, text, make_engine(model, text, EngineOptions(engine=name)))

    def _settings(self, plain: Translator) -> dict[str, Setting]:
        """How the model can decode: without reranking and, if it was trained for that, with it."""
        options = self.workspace.suite.system(self.system).evaluate
        settings = {PLAIN: self._tuned(self.system, plain, "length_penalty", options)}
        kind = plain.model.config.kind
        learnt = self.workspace.suite.system(self.system).recipe.objective.name == "mixture"
        if learnt and (reranker := reranker_of(plain.model)) is not None:
            itself = replace(plain, reranker=reranker)
            settings[RERANKED] = self._tuned(self.system, itself, "length_weight", options)
            if "high" in decoder_for(kind, options.strategy).efforts:
                high = replace(options, effort="high")
                settings[HIGH] = self._tuned(self.system, itself, "length_weight", high)
        return settings

    def _tuned(self, name: str, translator: Translator, weight: Weight, options: DecodingOptions) -> Setting:
        """With the weight that dev chooses."""
        valid = self._split("valid")
        options = replace(options, strategy=strategy_for(translator.model.config.kind, options.strategy))
        tried: list[Tried] = []
        with stage(f"{name}: choosing the {weight.replace('_', ' ')}", TRIES, self.quiet) as advance:
            for each in tune(translator, valid.source_text(), valid.references(), options, weight):
                tried.append(each)
                advance(1)
        value = choose(tried)
        dev_bleu = next(each.bleu for each in tried if each.value == value)
        return Setting(translator, with_weight(options, weight, value), dev_bleu)

    def _split(self, name: str) -> Split:
        return Dataset.open(self.workspace.dataset("raw")).splits[name]

    def _test(self, setting: Setting) -> Scored:
        test = self._split("test")
        translations = setting.translator.translate(test.source_text(), setting.options)
        texts = tuple(each.text for each in translations)
        quality = measure(texts, test.references(), setting.translator.text.target.language)
        steps = sum(each.steps for each in translations) / len(translations)
        return Scored(setting.options, quality, steps, texts)

    def _teacher(self, student: Setting) -> dict[str, Scored]:
        """The system's teacher, if it has one that is there; and the student, reranked by the teacher."""
        suite = self.workspace.suite
        if suite.distill is None or suite.system(self.system).data == "raw":
            return {}
        name = suite.distill.teacher
        if not self.workspace.stage(f"average:{name}").done:
            return {}
        directory = read_config(self.workspace.model(name))
        model = load_weights(directory)
        options = suite.system(name).evaluate
        teacher = self._tuned(name, self._translator(model, directory), "length_penalty", options)
        scored = {f"its teacher ({name})": self._test(teacher)}
        reranker = reranker_of(model)
        if reranker is not None and student.translator.model.config.kind != "autoregressive":
            reranked = replace(student.translator, reranker=reranker)
            unweighted = replace(student.options, length_weight=None)
            setting = replace(student, translator=reranked, options=unweighted)
            scored["this model, reranked by its teacher"] = self._test(setting)
        return scored

    def _card(self, packaged: Packaged, rows: dict[str, Scored], setting: Setting) -> str:
        suite = self.workspace.suite
        model, (source, target) = suite.system(self.system).recipe.model, suite.data.languages
        header = (
            f"---\nlanguage:\n- {source}\n- {target}\nlibrary_name: disco-mt\npipeline_tag: translation\n---"
        )
        sizes = f"{model.encoder.layers}+{model.decoder.layers} layers of width {model.width}"
        parts = [
            header,
            f"# {packaged.out.name}: {source} to {target}, {model.kind}",
            f"{sizes}, weights in half precision ({packaged.megabytes:.1f} MB). Made with:",
            f"```sh\ndisco suite run {suite.name} --stage average\n"
            f"disco suite package {suite.name} --system {self.system} --out {packaged.out.name}\n```",
            self._training_data(),
            f"## Scores\n\n{markdown(self._scores(rows))}",
        ]
        if HIGH in rows:
            given = f"--effort high --length-weight {rows[HIGH].options.weight:g}"
            parts.append(f"Effort high takes longer: `disco translate {given}`.")
        if source == "en":
            translations = setting.translator.translate(EVERYDAY, setting.options)
            pairs = [(line, each.text) for line, each in zip(EVERYDAY, translations, strict=True)]
            table = Table("Everyday sentences", (source, target), tuple(pairs), words=(0, 1))
            parts.append(f"## Examples, unedited\n\n{markdown(table)}")
        attribution = ATTRIBUTION[suite.data.source]
        parts.append(f"## Data and licence\n\nThe model comes under Apache-2.0, as Disco does. {attribution}")
        return "\n\n".join(parts) + "\n"

    def _training_data(self) -> str:
        suite = self.workspace.suite
        data, distill = suite.system(self.system).data, suite.distill
        if data == "raw" or distill is None:
            return "It was trained on the sentence pairs themselves."
        taught = f"It was trained on translations by its teacher ({distill.teacher}, beam {distill.beam})"
        more = distill.more.get(data)
        if more is None:
            return f"{taught}."
        others = (
            [f"the sources of {suite.data.source} {' and '.join(more.also_from)}"] if more.also_from else []
        )
        others += ["made-up sentences"] if more.splice else []
        return f"{taught}: of the corpus, and also of {' and of '.join(others)}."

    def _scores(self, rows: dict[str, Scored]) -> Table:
        """The test set; the first row is what all others are compared with."""
        first = next(iter(rows.values()))
        suite = self.workspace.suite
        judge = Judge(self._split("test").references(), suite.data.languages[1])
        cells = [
            (
                f"{name}, {_decoding(each.options)}",
                number(each.quality.bleu),
                "" if each is first else str(judge.difference(each.texts, first.texts)),
                number(each.quality.chrf),
                number(each.steps),
            )
            for name, each in rows.items()
        ]
        note = (
            f"{first.quality.sentences:,} sentences against all their references; sacreBLEU "
            f"`{first.quality.bleu_signature}`. Length penalties (alpha) and length weights (beta) were "
            "chosen on dev. Differences are to the first row, with 95 % intervals of the paired bootstrap "
            "(1,000 samples)."
        )
        header = ("", "BLEU", "difference", "chrF", "decoder passes per sentence")
        return Table(f"Test set of {suite.name}", header, tuple(cells), note)


def _decoding(options: DecodingOptions) -> str:
    """How a row of the card was decoded."""
    if options.strategy == "beam":
        return f"beam {options.beam}, alpha {options.alpha:g}"
    if options.strategy == "greedy":
        return "greedy"
    weight = f"alpha {options.alpha:g}" if options.length_weight is None else f"beta {options.weight:g}"
    return f"{options.strategy}, at most {options.iterations} passes, {options.length_beam} lengths, {weight}"
