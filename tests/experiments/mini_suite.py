"""A suite whose stages are there already: a handful of sentences, random weights, one model of every kind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from disco_mt.core.files import atomic_directory
from disco_mt.data.dataset import Dataset
from disco_mt.data.prepare import PrepareOptions, prepare
from disco_mt.nn.directory import save_model
from disco_mt.suites.stages import DONE, Stage
from disco_mt.suites.suite import load_suite
from disco_mt.suites.workspace import Workspace
from disco_mt.systems.build import build_model
from small_model import sentences, write_corpus
from tiny import lively

SUITE = """
about = "miniature"
average = 2
[data]
source = "phrasebook"
[prepare]
vocabulary_size = 320
[distill]
teacher = "at-raw"
[distill.more.spliced]
splice = 1.0
[model]
width = 16
encoder = { layers = 1, heads = 2, hidden = 32 }
decoder = { layers = 1, heads = 2, hidden = 32 }
max_source = 48
max_target = 48
length_classes = 24
[training]
batch_tokens = 512
max_tokens = 512
max_steps = 1000
warmup_steps = 10
[decoding]
iterations = 3
length_beam = 2
[systems.at-raw]
model.kind = "autoregressive"
[systems.at]
like = "at-raw"
data = "distilled"
[systems.at-contextless]
like = "at"
model.contextless = true
[systems.cmlm-raw]
model.kind = "cmlm"
[systems.cmlm]
like = "cmlm-raw"
data = "distilled"
[systems.disco-raw]
[systems.disco]
data = "distilled"
[systems.disco-spliced]
like = "disco"
data = "spliced"
start = "disco"
[systems.disco-easy-first]
like = "disco"
objective.name = "easy-first"
[systems.disco-mixture]
like = "disco"
objective.name = "mixture"
"""

SIZES = """
[systems."cmlm.batch-256"]
like = "cmlm"
training = { batch_tokens = 256, max_tokens = 256 }
[systems."cmlm.part-16"]
like = "cmlm"
data = "distilled/16"
[systems."disco.batch-256"]
like = "disco"
training = { batch_tokens = 256, max_tokens = 256 }
[systems."disco.part-16"]
like = "disco"
data = "distilled/16"
"""


def make_workspace(folder: Path) -> Workspace:
    """A workspace in `folder`/runs/mini with every stage done, and the suite's file beside it."""
    path = folder / "mini.toml"
    path.write_text(SUITE + SIZES, encoding="utf-8")
    corpus = folder / "corpus"
    corpus.mkdir()
    for seed, (split, number) in enumerate((("train", 200), ("valid", 9), ("test", 12))):
        write_corpus(corpus, split, sentences(number, seed))
    workspace = Workspace(load_suite(path), folder / "runs")
    for seed, stage in enumerate(workspace.stages()):
        _make(workspace, stage, corpus, seed)
    return workspace


def _make(workspace: Workspace, stage: Stage, corpus: Path, seed: int) -> None:
    stage.directory.mkdir(parents=True)
    match stage.verb:
        case "prepare":
            prepare(_prepare_options(corpus, stage.output), quiet=True)
        case "distill" | "subset":
            shutil.copytree(workspace.dataset("raw"), stage.output)
        case "train":
            stage.output.mkdir()
            scored = {
                "kind": "dev",
                "step": 2,
                "epoch": 1,
                "bleu": 1.5,
                "seconds": 50.0,
                "score_seconds": 20.0,
            }
            log = [scored, {"kind": "end", "step": 4000, "reason": "epochs", "seconds": 140.0}]
            (stage.output / "log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in log))
        case "average":
            _model(workspace, stage, seed)
    (stage.directory / DONE).write_text("{}")


def _prepare_options(corpus: Path, out: Path) -> PrepareOptions:
    return PrepareOptions(
        *(corpus / "train.en", corpus / "train.de", out, "en", "de"),
        valid_source=corpus / "valid.en",
        valid_target=corpus / "valid.de",
        test_source=corpus / "test.en",
        test_target=corpus / "test.de",
        vocabulary_size=320,
    )


def _model(workspace: Workspace, stage: Stage, seed: int) -> None:
    """Random, but it says various things."""
    dataset = Dataset.open(workspace.dataset("raw"))
    recipe = workspace.suite.system(stage.system).recipe.for_data(dataset)
    model = lively(build_model(recipe.model, seed), seed).float()
    with atomic_directory(stage.output) as directory:
        save_model(directory, model, dataset.text.save(directory), "# A model of the tests\n", {})
