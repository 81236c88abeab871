"""A trained system as a model to pass on: half precision, with a card that says what it is and how good.

The scores and the sentences of the card come from the very weights that are written, after rounding.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from disco_mt.data.dataset import Dataset
from disco_mt.errors import UserError
from disco_mt.evaluation.quality import Quality, measure, to_json
from disco_mt.files import atomic_directory, refuse_existing, write_text
from disco_mt.models.directory import CARD, WEIGHTS, load_weights, read_config, save_model
from disco_mt.recipes.suite import System
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
class Packaged:
    """What was written."""

    out: Path
    megabytes: float  # of the weights
    quality: Quality
    steps: float


def package(workspace: Workspace, system: str, out: Path) -> Packaged:
    """Write the averaged model of a system into the new directory `out`, for others to use."""
    refuse_existing(out)
    chosen, directory = workspace.suite.system(system), read_config(workspace.model(system))
    attribution = _attribution(workspace)
    model = load_weights(directory).half().float()  # what a reader of the half-precision file gets
    translator = Translator(model, TextPair.load(directory.path, directory.text))
    quality, steps = _score(workspace, chosen, translator)
    extra = directory.extra | {"test": to_json(quality) | {"steps": steps}}
    with atomic_directory(out) as temporary:
        for name in {directory.text[side]["file"] for side in ("source", "target")}:
            shutil.copyfile(directory.path / name, temporary / name)
        save_model(temporary, model, directory.text, "", extra, torch.float16)
        packaged = Packaged(out, (temporary / WEIGHTS).stat().st_size / 1e6, quality, steps)
        card = _card(workspace, system, packaged, _everyday(translator, chosen), attribution)
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


def _score(workspace: Workspace, system: System, translator: Translator) -> tuple[Quality, float]:
    """BLEU and the like on the test set, and mean steps."""
    test = Dataset.open(workspace.dataset("raw")).splits["test"]
    found = translator.translate(test.source_text(), **asdict(system.evaluate))
    language = translator.text.target.language
    quality = measure([each.text for each in found], test.references(), language)
    return quality, sum(each.steps for each in found) / len(found)


def _everyday(translator: Translator, system: System) -> list[tuple[str, str]]:
    """Sentences and what the model makes of them, unedited; only where it reads English."""
    if translator.text.source.language != "en":
        return []
    found = translator.translate(EVERYDAY, **asdict(system.evaluate))
    return [(sentence, each.text) for sentence, each in zip(EVERYDAY, found, strict=True)]


def _card(
    workspace: Workspace, system: str, packaged: Packaged, pairs: list[tuple[str, str]], attribution: str
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
        "\n".join(["## Scores", "", *_scores(workspace, system, packaged)]),
    ]
    if pairs:
        rows = [f"| {sentence} | {text} |" for sentence, text in pairs]
        parts.append(
            "\n".join(["## What it says, unedited", "", f"| {source} | {target} |", "|---|---|", *rows])
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


def _scores(workspace: Workspace, system: str, packaged: Packaged) -> list[str]:
    """The test set, this model and, where it has been evaluated, its teacher."""
    rows: dict[str, dict[str, Any]] = {
        f"this model, {_decoding(workspace.suite.system(system))}": to_json(packaged.quality)
        | {"steps": packaged.steps}
    }
    teacher = workspace.suite.distill.teacher if workspace.suite.distill else system
    if teacher != system and workspace.stage(f"evaluate:{teacher}").done:
        label = f"its teacher ({teacher}), {_decoding(workspace.suite.system(teacher))}"
        rows[label] = workspace.scores(teacher)
    lines = [f"| {name} | {s['bleu']:.2f} | {s['chrf']:.2f} | {s['steps']:.2f} |" for name, s in rows.items()]
    return [
        f"The test set of {workspace.suite.name}, {packaged.quality.sentences:,} sentences against all their "
        f"references; sacreBLEU `{packaged.quality.bleu_signature}`.",
        "",
        "| | BLEU | chrF | decoder passes a sentence |",
        "|---|---:|---:|---:|",
        *lines,
    ]


def _decoding(system: System) -> str:
    options = system.evaluate
    if options.strategy in ("beam", "greedy"):
        return f"beam {options.beam}" if options.strategy == "beam" else "greedy"
    return f"{options.strategy}, at most {options.iterations} passes, {options.length_beam} lengths"
