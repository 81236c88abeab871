"""A trained system as a model to pass on: half precision, with a card that says what it is and how good.

The scores and the sentences of the card come from the very weights that are written, after rounding. The
length penalty is chosen on dev, for the model as for its teacher, and written with the weights.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from disco_mt.data.dataset import Dataset, Split
from disco_mt.decoding.strategies import DecodingOptions
from disco_mt.engine.choice import make_engine
from disco_mt.errors import UserError
from disco_mt.evaluation.quality import Quality, measure, to_json
from disco_mt.evaluation.tune import TRIES, best, tune
from disco_mt.files import atomic_directory, refuse_existing, write_text
from disco_mt.models.autoregressive import Autoregressive
from disco_mt.models.base import TranslationModel
from disco_mt.models.cmlm import CMLM
from disco_mt.models.directory import CARD, WEIGHTS, Directory, load_weights, read_config, save_model
from disco_mt.models.disco import DisCo
from disco_mt.progress import stage
from disco_mt.recipes.suite import Suite
from disco_mt.recipes.workspace import Workspace
from disco_mt.text.pair import TextPair
from disco_mt.translator import Translator

NOTICE = "NOTICE"
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
class Scored:
    """A system on the test set."""

    options: DecodingOptions  # with the length penalty that dev has chosen
    quality: Quality
    steps: float


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
    scored = _score(workspace, system, translator, quiet)
    decoding = {"length_penalty": scored.options.alpha}
    extra = directory.extra | {
        "test": to_json(scored.quality) | {"steps": scored.steps},
        "decoding": decoding,
    }
    with atomic_directory(out) as temporary:
        for name in {directory.text[side]["file"] for side in ("source", "target")}:
            shutil.copyfile(directory.path / name, temporary / name)
        save_model(temporary, model, directory.text, "", extra, torch.float16)
        packaged = Packaged(out, (temporary / WEIGHTS).stat().st_size / 1e6, scored)
        rows = {"this model": scored, **_teacher(workspace, system, translator, scored.options, quiet)}
        card = _card(workspace, system, packaged, rows, _everyday(translator, scored.options), attribution)
        write_text(temporary / CARD, card)
        write_text(temporary / NOTICE, f"{out.name}, a translation model of Disco.\n{attribution}\n")
    return packaged


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
    return Translator(model, text, engine=make_engine(model, text.vocabularies, name=name))


def _score(workspace: Workspace, system: str, translator: Translator, quiet: bool) -> Scored:
    """Choose the length penalty on dev, score the test set once."""
    valid, options = _split(workspace, "valid"), workspace.suite.system(system).evaluate
    tried: list[tuple[float, float]] = []
    with stage(f"{system}: choosing the length penalty", TRIES, quiet) as advance:
        for each in tune(translator, valid.source_text(), valid.references(), options, "length_penalty"):
            tried.append(each)
            advance(1)
    return _test(workspace, translator, replace(options, length_penalty=best(tried)))


def _split(workspace: Workspace, name: str) -> Split:
    return Dataset.open(workspace.dataset("raw")).splits[name]


def _test(workspace: Workspace, translator: Translator, options: DecodingOptions) -> Scored:
    test = _split(workspace, "test")
    found = translator.translate(test.source_text(), **asdict(options))
    language = translator.text.target.language
    quality = measure([each.text for each in found], test.references(), language)
    return Scored(options, quality, sum(each.steps for each in found) / len(found))


def _teacher(
    workspace: Workspace, system: str, pupil: Translator, options: DecodingOptions, quiet: bool
) -> dict[str, Scored]:
    """Who taught the system, if anyone did and is at hand; and the pupil, with the teacher as its reader."""
    suite = workspace.suite
    if suite.distill is None or suite.system(system).data == "raw":
        return {}
    teacher = suite.distill.teacher
    if not workspace.stage(f"average:{teacher}").done:
        return {}
    directory = read_config(workspace.model(teacher))
    model = load_weights(directory)
    scored = {
        f"its teacher ({teacher})": _score(workspace, teacher, _translator(suite, model, directory), quiet)
    }
    if isinstance(model, Autoregressive) and isinstance(pupil.model, DisCo | CMLM):
        rescored = _test(workspace, replace(pupil, rescorer=model), options)
        scored["this model, candidates ranked by its teacher"] = rescored
    return scored


def _everyday(translator: Translator, options: DecodingOptions) -> list[tuple[str, str]]:
    """Sentences and what the model makes of them, unedited; only where it reads English."""
    if translator.text.source.language != "en":
        return []
    found = translator.translate(EVERYDAY, **asdict(options))
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
        "\n".join(["## Scores", "", *_scores(suite.name, rows)]),
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
    return f"{taught}, of made-up sources, too." if suite.system(system).data == "spliced" else f"{taught}."


def _scores(suite: str, rows: dict[str, Scored]) -> list[str]:
    """The test set, line by line."""
    quality = next(iter(rows.values())).quality
    lines = [
        f"| {name}, {_decoding(each.options)} | {each.quality.bleu:.2f} | {each.quality.chrf:.2f} "
        f"| {each.steps:.2f} |"
        for name, each in rows.items()
    ]
    return [
        f"The test set of {suite}, {quality.sentences:,} sentences against all their references; sacreBLEU "
        f"`{quality.bleu_signature}`. The length penalty (alpha) was chosen on dev.",
        "",
        "| | BLEU | chrF | decoder passes a sentence |",
        "|---|---:|---:|---:|",
        *lines,
    ]


def _decoding(options: DecodingOptions) -> str:
    if options.strategy in ("beam", "greedy"):
        searched = f"beam {options.beam}" if options.strategy == "beam" else "greedy"
        return f"{searched}, alpha {options.alpha:g}"
    passes = f"at most {options.iterations} passes, {options.length_beam} lengths"
    return f"{options.strategy}, {passes}, alpha {options.alpha:g}"
