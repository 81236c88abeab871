"""A dataset directory and model directories as users have them: a real BPE vocabulary, random weights."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from disco_mt.core.files import atomic_directory
from disco_mt.data.dataset import Dataset
from disco_mt.data.prepare import PrepareOptions, prepare
from disco_mt.nn.directory import save_model
from disco_mt.systems.build import build_model
from tiny import lively, tiny_config

LONGEST = 47  # the most source tokens that the models read, EOS apart

WORDS = {
    "the": "das",
    "small": "kleine",
    "old": "alte",
    "house": "Haus",
    "child": "Kind",
    "sees": "sieht",
    "finds": "findet",
    "often": "oft",
    "today": "heute",
}
SHAPES = ("the {} {} {} the {} {} {}", "{} the {} {} the {} {}", "the {} {} the {}", "the {} {}")


@dataclass(frozen=True)
class Small:
    """Where everything lies."""

    corpus: Path  # train.en, train.de, valid.en, valid.de
    dataset: Path
    disco: Path
    cmlm: Path
    autoregressive: Path


def make_small(folder: Path) -> Small:
    """Text files, a dataset, and one model directory of each kind."""
    corpus, dataset = folder / "corpus", folder / "dataset"
    corpus.mkdir()
    for split, number in (("train", 300), ("valid", 4)):
        write_corpus(corpus, split, sentences(number))
    prepare(prepare_options(corpus, dataset), quiet=True)
    models = {kind: make_model(folder / kind, dataset, kind) for kind in ("disco", "cmlm", "autoregressive")}
    return Small(corpus, dataset, models["disco"], models["cmlm"], models["autoregressive"])


def sentences(number: int, seed: int = 1) -> list[str]:
    """English of a sort."""
    draw, words = random.Random(seed), list(WORDS)
    made = []
    for _ in range(number):
        shape = draw.choice(SHAPES)
        text = shape.format(*draw.choices(words, k=shape.count("{}")))
        made.append(text[0].upper() + text[1:] + ".")
    return made


def write_corpus(folder: Path, split: str, lines: list[str]) -> None:
    """split.en and, word for word, split.de."""
    german = [
        " ".join(WORDS.get(word.lower(), word) for word in line.rstrip(".").split()) + "." for line in lines
    ]
    for language, side in (("en", lines), ("de", german)):
        (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in side), encoding="utf-8")


def prepare_options(corpus: Path, out: Path) -> PrepareOptions:
    """What `disco prepare` would be told."""
    return PrepareOptions(
        *(corpus / "train.en", corpus / "train.de", out, "en", "de"),
        valid_source=corpus / "valid.en",
        valid_target=corpus / "valid.de",
        vocabulary_size=320,
    )


def make_model(path: Path, dataset: Path, kind: str) -> Path:
    """A model directory for the dataset; weights are random, but large enough to say various things."""
    text = Dataset.open(dataset).text
    size = text.source.vocabulary_size
    config = tiny_config(
        kind=kind,
        max_source=LONGEST + 1,
        max_target=LONGEST + 1,
        source_vocabulary=size,
        target_vocabulary=size,
    )
    model = lively(build_model(config)).float()
    with atomic_directory(path) as directory:
        save_model(directory, model, text.save(directory), "# A model of the tests\n", {})
    return path
