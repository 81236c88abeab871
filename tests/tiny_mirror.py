"""The WMT suites in miniature: a mirror of their files, as mtdata names them, and models of no size."""

from __future__ import annotations

import random
from pathlib import Path

from disco_mt.suites.suite import Suite, load_suite

SUITES = (
    "wmt14.en-de",
    "wmt14.de-en",
    "wmt16.en-ro",
    "wmt16.ro-en",
    "wmt17.en-zh",
    "wmt17.zh-en",
    "wmt14.en-fr",
)
CODES = {"en": "eng", "de": "deu", "ro": "ron", "zh": "zho", "fr": "fra"}
WORDS = {
    "en": ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"],
    "de": ["Ameise", "Biene", "Katze", "Hund", "Aal", "Fuchs", "Gnu", "Henne"],
    "ro": ["furnică", "albină", "pisică", "câine", "țipar", "vulpe", "gnu", "găină"],
    "zh": ["蚂蚁", "蜜蜂", "猫", "狗", "鳗鱼", "狐狸", "角马", "母鸡"],
    "fr": ["fourmi", "abeille", "chat", "chien", "anguille", "renard", "gnou", "poule"],
}
SMALL = """like = "{name}"
reports = ["main"]
[prepare]
vocabulary_size = 320
max_ratio = 1000.0 # its teacher is not trained, and says anything
[distill]
beam = 2
[model]
width = 16
encoder = {{ layers = 1, heads = 2, hidden = 16 }}
decoder = {{ layers = 1, heads = 2, hidden = 16 }}
max_source = 128
max_target = 128
length_classes = 128
[training]
batch_tokens = 512
max_tokens = 512
max_steps = 5
dev_every = 1
precision = "fp32"
[decoding]
iterations = 2
length_beam = 2
"""
SMALL_TEACHER = """[systems.teacher]
model.width = 24
model.encoder = { layers = 1, heads = 2, hidden = 24 }
model.decoder = { layers = 1, heads = 2, hidden = 24 }
"""


def small_suite(folder: Path, name: str) -> Path:
    """A suite file that has all of a WMT suite but the sizes."""
    teacher = SMALL_TEACHER if "teacher" in load_suite(name).systems else ""
    path = folder / f"{name}.toml"
    path.write_text(SMALL.format(name=name) + teacher, encoding="utf-8")
    return path


def write_mirror(folder: Path, suite: Suite, pairs: int = 60) -> Path:
    """The files of a suite as mtdata delivers them, below a folder of corpora."""
    parts = suite.data.parts
    for name in (*parts.train, *parts.by_hand):
        write_part(folder / parts.folder / "train-parts", name, suite.data.languages, pairs)
    for name in filter(None, (parts.valid, parts.test)):
        write_part(folder / parts.folder / "tests", name, suite.data.languages, 5)
    return folder


def write_part(folder: Path, name: str, languages: tuple[str, str], pairs: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for language in languages:
        lines = "".join(f"{line}\n" for line in sentences(language, pairs, name))
        (folder / f"{name}.{CODES[language]}").write_text(lines, encoding="utf-8")


def sentences(language: str, number: int, seed: str) -> list[str]:
    """The same sentences in any language."""
    draw = random.Random(seed)
    drawn = [[draw.randrange(8) for _ in range(draw.randint(1, 6))] for _ in range(number)]
    space = "" if language == "zh" else " "
    return [space.join(WORDS[language][word] for word in words) for words in drawn]
