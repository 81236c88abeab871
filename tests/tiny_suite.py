"""A suite that is trained in no time, on a corpus of a few animals."""

from __future__ import annotations

import random
from pathlib import Path

WORDS = {
    "en": ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"),
    "de": ("Ameise", "Biene", "Katze", "Hund", "Aal", "Fuchs", "Gnu", "Henne"),
    "fr": ("fourmi", "abeille", "chat", "chien", "anguille", "renard", "gnou", "poule"),
}

SUITE = """about = "animals"
average = 2
[data]
source = "tatoeba"
[prepare]
vocabulary_size = 300
max_ratio = 1000.0 # its teacher is not trained, and says anything
[distill]
teacher = "teacher"
beam = 2
[model]
width = 16
encoder = { layers = 1, heads = 2, hidden = 16 }
decoder = { layers = 1, heads = 2, hidden = 16 }
max_source = 128
max_target = 128
length_classes = 128
[training]
batch_tokens = 512
max_tokens = 512
max_steps = 4
dev_every = 2
[decoding]
iterations = 2
length_beam = 2
[systems.teacher]
model.kind = "autoregressive"
decoding.strategy = "greedy"
evaluate.strategy = "beam"
[systems.disco]
data = "distilled"
model.dropout = 0.0
[systems.mixed]
like = "disco"
objective.name = "mixture"
"""


def write_suite(folder: Path, old: str = "", new: str = "") -> Path:
    """The suite file, with a change if one is asked for."""
    assert old in SUITE
    path = folder / "animals.toml"
    path.write_text(SUITE.replace(old, new) if old else SUITE, encoding="utf-8")
    return path


def write_corpus(folder: Path, train: int = 100, languages: tuple[str, str] = ("en", "de")) -> Path:
    """A folder like that of Tatoeba: plain files, and all references of dev and test."""
    draw = random.Random(0)
    here = folder / f"tatoeba-{'-'.join(languages)}"
    here.mkdir(parents=True)
    for split, sentences in (("dev", 4), ("test", 5), ("train", train)):
        drawn = [[draw.randrange(8) for _ in range(draw.randint(1, 5))] for _ in range(sentences)]
        source, target = ([_say(words, language) for words in drawn] for language in languages)
        _write(here / f"{split}.{languages[0]}", source)
        _write(here / f"{split}.{languages[1]}", target)
        if split != "train":
            both = zip(source, target, strict=True)
            _write(here / f"{split}.all-references.tsv", [f"{one}\t{two}\tund {two}" for one, two in both])
    return folder


def _say(words: list[int], language: str) -> str:
    return " ".join(WORDS[language][word] for word in words)


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
