"""Vocabulary shortlists: counting, and decoding with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from disco_mt.cli import main
from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.decoding.options import DecodingOptions
from disco_mt.engine.incremental import IncrementalEngine
from disco_mt.engine.select import EngineOptions
from disco_mt.engine.shortlist import Shortlist
from disco_mt.engine.torch_runtime import TorchRuntime
from disco_mt.systems.build import build_model
from disco_mt.systems.disco.model import DisCo
from disco_mt.translator import Translator
from small_model import Small, make_small, sentences
from tiny import VOCABULARY, lively, random_sources, tiny_config


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return make_small(tmp_path_factory.mktemp("shortlist"))


def model_of(seed: int) -> DisCo:
    model = lively(build_model(tiny_config(), seed), seed)
    assert isinstance(model, DisCo)
    return model


def test_a_list_of_every_word_gives_the_same_words() -> None:
    """The softmax is over the shortlist only, so scores are a little higher."""
    model, sources = model_of(1), random_sources([3, 8, 5], 1)
    every = Shortlist(torch.full((VOCABULARY, 1), -1), torch.arange(NUM_SPECIAL, VOCABULARY))
    exact, listed = (
        [each.hypothesis for each in sorted(engine.finished(sources, once), key=lambda each: each.index)]
        for once in (DecodingOptions("easy-first", iterations=1),)
        for engine in (
            IncrementalEngine(TorchRuntime(model)),
            IncrementalEngine(TorchRuntime(model), "fp32", every),
        )
    )
    for one, other in zip(exact, listed, strict=True):
        assert other.candidates == one.candidates
        assert other.score >= one.score


def test_a_shortlist_is_counted_from_pairs() -> None:
    a, b, x, y, z = range(NUM_SPECIAL, NUM_SPECIAL + 5)
    pairs = [([a, b], [x, y, z]), ([a], [x, z]), ([b], [y, z]), ([a, a], [x, x, z])]
    arrays = [(np.array(one, np.uint16), np.array(other, np.uint16)) for one, other in pairs]
    found = Shortlist.count(arrays, (12, 12), each=1, common=1)
    assert (found.partners[a].tolist(), found.partners[b].tolist()) == ([x], [y])
    assert found.common.tolist() == [z]
    assert found.words([a, b, a]).tolist() == [x, y, z]
    assert found.words([11]).tolist() == [z]  # never seen
    assert found.words([]).tolist() == [z]


def test_a_shortlist_from_the_command_line(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "list.safetensors"
    command = ["shortlist", "--data", str(small.dataset), "--out", str(file), "--each", "9", "--common", "20"]
    assert main(command) == 0
    translate = ["translate", "--model", str(small.disco), "--shortlist", str(file), *sentences(3)]
    assert main(translate) == 0
    capsys.readouterr()
    assert main(command) == 2  # it exists
    assert "already exists" in capsys.readouterr().err
    allowed = Shortlist.load(file)
    translator = Translator.from_pretrained(small.disco, EngineOptions(shortlist=str(file)))
    ids = translator.text.source.encode(sentences(1)[0])
    words = translator.translate(sentences(1))[0].tokens
    assert set(translator.text.target.ids(words)) <= set(allowed.words(ids).tolist())


def test_what_ctranslate2_reads(tmp_path: Path) -> None:
    names = [f"w{number}" for number in range(8)]
    Shortlist(torch.tensor([[-1, -1]] * 6 + [[5, 7], [6, -1]]), torch.tensor([6])).save_vmap(
        tmp_path / "vmap.txt", names, names
    )
    assert (tmp_path / "vmap.txt").read_text() == "\tw6\nw6\tw5 w7\nw7\tw6\n"


def test_mistakes_are_named(small: Small, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a shortlist.*disco shortlist"):
        Translator.from_pretrained(small.disco, EngineOptions(shortlist=str(tmp_path / "none")))
    Shortlist(torch.full((7, 1), 5), torch.tensor([6])).save(tmp_path / "other")
    with pytest.raises(UserError, match="for another vocabulary: it has 7 source tokens"):
        Translator.from_pretrained(small.disco, EngineOptions(shortlist=str(tmp_path / "other")))
    with pytest.raises(UserError, match="engine reference has no vocabulary shortlist"):
        Translator.from_pretrained(small.cmlm, EngineOptions(shortlist=str(tmp_path / "other")))
