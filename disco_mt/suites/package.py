"""A trained system as a model to pass on: half precision, with a card that says what it is and how good.

The scores and the sentences of the card come from the very weights that are written, after rounding. How the
model decodes is chosen on dev and written with the weights: its length penalty or, if it has learnt to read
and is better so, that it ranks its candidates itself.
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
from disco_mt.evaluation.quality import Quality, measure, paired_bootstrap, to_json
from disco_mt.evaluation.tune import TRIES, Tried, Weight, choose, tune, with_weight
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.directory import CARD, WEIGHTS, Directory, read_config, save_model
from disco_mt.suites.stages import non_defaults
from disco_mt.suites.suite import Suite
from disco_mt.suites.workspace import Workspace
from disco_mt.systems import strategy_for
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.build import load_weights, reranker_of
from disco_mt.systems.cmlm.model import CMLM
from disco_mt.systems.disco.model import DisCo
from disco_mt.text.pair import TextPair
from disco_mt.translator import Translator

NOTICE = "NOTICE"
WITH_CARE = "this model with care, ranking candidates of several orders"
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
"""English of every day, for people to judge a model by; not from any corpus."""


@dataclass(frozen=True)
class Way:
    """A model (with its reader, if it has one) and how it decodes: with the weight that dev has chosen."""

    translator: Translator
    options: DecodingOptions
    dev_bleu: float

    @property
    def defaults(self) -> DecodingDefaults:
        """What the model's config.json says, so that everyone decodes in this way."""
        if self.translator.reranker is None:
            return DecodingDefaults(length_penalty=self.options.length_penalty)
        return DecodingDefaults(length_weight=self.options.length_weight, rerank="self")


@dataclass(frozen=True)
class Scored:
    """A system on the test set."""

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

    @property
    def quality(self) -> Quality:
        """Of the test set."""
        return self.scored.quality

    @property
    def steps(self) -> float:
        """Decoder passes a sentence."""
        return self.scored.steps


def package(workspace: Workspace, system: str, out: Path, quiet: bool = True) -> Packaged:
    """Write the averaged model of a system into the new directory `out`, for others to use."""
    refuse_existing(out)
    directory = read_config(workspace.model(system))
    attribution = _attribution(workspace)
    model = load_weights(directory).half().float()  # what a reader of the half-precision file gets
    translator = _translator(workspace.suite, model, directory)
    ways = _ways(workspace, system, translator, quiet)
    best_way = max(ways, key=lambda name: ways[name].dev_bleu)
    way = ways.pop(best_way)
    scored = _test(workspace, way)
    extra = _told(directory.extra, workspace.suite.system(system).start) | {
        "test": to_json(scored.quality) | {"steps": scored.steps},
        "decoding": non_defaults(way.defaults),
    }
    with atomic_directory(out) as temporary:
        for name in {directory.text[side]["file"] for side in ("source", "target")}:
            shutil.copyfile(directory.path / name, temporary / name)
        save_model(temporary, model, directory.text, "", extra, torch.float16)
        packaged = Packaged(out, (temporary / WEIGHTS).stat().st_size / 1e6, scored)
        rows = {best_way: scored} | {name: _test(workspace, each) for name, each in ways.items()}
        rows |= _teacher(workspace, system, way, quiet) | _with_care(workspace, system, translator, quiet)
        card = _card(workspace, system, packaged, rows, _everyday(way), attribution)
        write_text(temporary / CARD, card)
        write_text(temporary / NOTICE, f"{out.name}, a translation model of Disco.\n{attribution}\n")
    return packaged


def _told(extra: dict[str, Any], start: str) -> dict[str, Any]:
    """What is known of a model's training, without the folder of the model that it started from."""
    recipe = extra.get("recipe", {})
    if "start" not in recipe:
        return extra
    return extra | {"recipe": recipe | {"start": recipe["start"] | {"model": start}}}


def _attribution(workspace: Workspace) -> str:
    source = workspace.suite.data.source
    if source not in ATTRIBUTION:
        allowed = ", ".join(ATTRIBUTION)
        raise UserError(
            f"a model of {workspace.suite.name} may not be passed on: its data ({source}) do not allow it; "
            f"models of these sources may: {allowed}"
        )
    return ATTRIBUTION[source]


def _translator(suite: Suite, model: TranslationModel, directory: Directory) -> Translator:
    """With the engine that fits; of autoregressive models the one that distils."""
    text, searching = TextPair.load(directory.path, directory.text), model.config.kind == "autoregressive"
    name = "ctranslate2" if searching and suite.distill and suite.distill.engine == "ctranslate2" else ""
    return Translator(model, text, make_engine(model, text, EngineOptions(engine=name)))


def _ways(workspace: Workspace, system: str, plain: Translator, quiet: bool) -> dict[str, Way]:
    """How the model can decode: it takes its most confident candidate, or reads them all and ranks them."""
    ways = {"this model": _tuned(workspace, system, plain, "length_penalty", quiet)}
    if (reading := _reading(workspace, system, plain)) is not None:
        ranking = _tuned(workspace, system, reading, "length_weight", quiet)
        ways["this model, ranking its candidates itself"] = ranking
    return ways


def _reading(workspace: Workspace, system: str, plain: Translator) -> Translator | None:
    """The model as the reader of its own candidates, if it has learnt to be."""
    model, learnt = plain.model, workspace.suite.system(system).recipe.objective.name == "mixture"
    return replace(plain, reranker=reranker_of(model)) if learnt and isinstance(model, DisCo) else None


def _with_care(workspace: Workspace, system: str, plain: Translator, quiet: bool) -> dict[str, Scored]:
    """What a model that reads can do, if time does not matter; it does, so that none is shipped like this."""
    if (reading := _reading(workspace, system, plain)) is None:
        return {}
    careful = replace(workspace.suite.system(system).evaluate, effort="high")
    way = _tuned(workspace, system, reading, "length_weight", quiet, careful)
    return {WITH_CARE: _test(workspace, way)}


def _tuned(
    workspace: Workspace,
    system: str,
    translator: Translator,
    weight: Weight,
    quiet: bool,
    options: DecodingOptions | None = None,
) -> Way:
    """The weight that dev chooses."""
    valid, options = _split(workspace, "valid"), options or workspace.suite.system(system).evaluate
    strategy = strategy_for(translator.model.config.kind, options.strategy)  # the card names it
    options, tried = replace(options, strategy=strategy), list[Tried]()
    with stage(f"{system}: choosing the {weight.replace('_', ' ')}", TRIES, quiet) as advance:
        for each in tune(translator, valid.source_text(), valid.references(), options, weight):
            tried.append(each)
            advance(1)
    value = choose(tried)
    return Way(
        translator,
        with_weight(options, weight, value),
        next(each.bleu for each in tried if each.value == value),
    )


def _split(workspace: Workspace, name: str) -> Split:
    return Dataset.open(workspace.dataset("raw")).splits[name]


def _test(workspace: Workspace, way: Way) -> Scored:
    """The test set, scored once."""
    test = _split(workspace, "test")
    found = way.translator.translate(test.source_text(), way.options)
    language = way.translator.text.target.language
    texts = tuple(each.text for each in found)
    quality = measure(texts, test.references(), language)
    return Scored(way.options, quality, sum(each.steps for each in found) / len(found), texts)


def _teacher(workspace: Workspace, system: str, pupil: Way, quiet: bool) -> dict[str, Scored]:
    """Who taught the system, if anyone did and is at hand; and the pupil, with the teacher as its reader."""
    suite = workspace.suite
    if suite.distill is None or suite.system(system).data == "raw":
        return {}
    name = suite.distill.teacher
    if not workspace.stage(f"average:{name}").done:
        return {}
    directory = read_config(workspace.model(name))
    model = load_weights(directory)
    teacher = _tuned(workspace, name, _translator(suite, model, directory), "length_penalty", quiet)
    scored = {f"its teacher ({name})": _test(workspace, teacher)}
    if isinstance(model, Autoregressive) and isinstance(pupil.translator.model, DisCo | CMLM):
        reading, options = (
            replace(pupil.translator, reranker=reranker_of(model)),
            replace(pupil.options, length_weight=None),
        )
        read = replace(pupil, translator=reading, options=options)
        scored["this model, its teacher ranking the candidates"] = _test(workspace, read)
    return scored


def _everyday(way: Way) -> list[tuple[str, str]]:
    """Sentences and what the model makes of them, unedited; only where it reads English."""
    if way.translator.text.source.language != "en":
        return []
    found = way.translator.translate(EVERYDAY, way.options)
    return [(sentence, each.text) for sentence, each in zip(EVERYDAY, found, strict=True)]


def _card(
    workspace: Workspace,
    system: str,
    packaged: Packaged,
    rows: dict[str, Scored],
    pairs: list[tuple[str, str]],
    attribution: str,
) -> str:
    suite = workspace.suite
    model, (source, target) = suite.system(system).recipe.model, suite.data.languages
    header = f"---\nlanguage:\n- {source}\n- {target}\nlibrary_name: disco-mt\npipeline_tag: translation\n---"
    sizes = f"{model.encoder.layers}+{model.decoder.layers} layers of width {model.width}"
    parts = [
        header,
        f"# {packaged.out.name}: {source} to {target}, {model.kind}",
        f"{sizes}, weights in half precision ({packaged.megabytes:.1f} MB). Made with:",
        f"```sh\ndisco recipe run {suite.name} --stage average\n"
        f"disco recipe package {suite.name} --system {system} --out {packaged.out.name}\n```",
        _learnt(workspace, system),
        "\n".join(["## Scores", "", *_scores(workspace, rows)]),
    ]
    if pairs:
        said = [f"| {sentence} | {text} |" for sentence, text in pairs]
        parts.append(
            "\n".join(["## What it says, unedited", "", f"| {source} | {target} |", "|---|---|", *said])
        )
    parts.append(f"## Data and licence\n\nThe model comes under Apache-2.0, as Disco does. {attribution}")
    return "\n\n".join(parts) + "\n"


def _learnt(workspace: Workspace, system: str) -> str:
    suite = workspace.suite
    if suite.system(system).data == "raw" or suite.distill is None:
        return "It learnt from the sentence pairs themselves."
    taught = (
        f"It learnt from translations of its teacher ({suite.distill.teacher}, beam {suite.distill.beam})"
    )
    more = suite.distill.more.get(suite.system(system).data)
    if more is None:
        return f"{taught}."
    others = [f"the sources of {suite.data.source} {' and '.join(more.also_from)}"] if more.also_from else []
    others += ["made-up sentences"] if more.splice else []
    return f"{taught}; not only of the corpus, but also of {' and of '.join(others)}."


def _scores(workspace: Workspace, rows: dict[str, Scored]) -> list[str]:
    """The test set, line by line; the first line is what all others are compared with."""
    first, *others = rows.values()
    references, language = _split(workspace, "test").references(), workspace.suite.data.languages[1]
    found = [paired_bootstrap(first.texts, other.texts, references, language) for other in others]
    beside = ["", *(f"{each.difference:+.2f} [{each.low:.2f}, {each.high:.2f}]" for each in found)]
    lines = [
        f"| {name}, {_decoding(each.options)} | {each.quality.bleu:.2f} | {difference} "
        f"| {each.quality.chrf:.2f} | {each.steps:.2f} |"
        for (name, each), difference in zip(rows.items(), beside, strict=True)
    ]
    quality = first.quality
    return [
        f"The test set of {workspace.suite.name}, {quality.sentences:,} sentences against all their "
        f"references; sacreBLEU `{quality.bleu_signature}`. Weights of the length (alpha, beta) were chosen "
        "on dev. Differences are those to the first line, with 95 % of 1,000 resampled test sets (paired "
        "bootstrap).",
        "",
        "| | BLEU | difference | chrF | decoder passes a sentence |",
        "|---|---:|---:|---:|---:|",
        *lines,
        *_asked_for(rows.get(WITH_CARE)),
    ]


def _asked_for(careful: Scored | None) -> list[str]:
    """How to get what takes its time."""
    if careful is None:
        return []
    given = f"--effort high --length-weight {careful.options.weight:g}"
    return ["", f"With effort high, which takes longer: `disco translate {given}`."]


def _decoding(options: DecodingOptions) -> str:
    if options.strategy in ("beam", "greedy"):
        searched = f"beam {options.beam}" if options.strategy == "beam" else "greedy"
        return f"{searched}, alpha {options.alpha:g}"
    passes = f"at most {options.iterations} passes, {options.length_beam} lengths"
    passes += ", effort high" if options.effort == "high" else ""
    weight = f"alpha {options.alpha:g}" if options.length_weight is None else f"beta {options.weight:g}"
    return f"{options.strategy}, {passes}, {weight}"
