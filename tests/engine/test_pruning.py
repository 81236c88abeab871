"""Pruning: off it is exact, on it leaves out what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from disco_mt.engine.pruning import Pruning

from disco_mt.cli import main
from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.decoding.results import Hypothesis
from disco_mt.engine.incremental import IncrementalEngine
from disco_mt.engine.shortlist import Shortlist
from disco_mt.engine.torch_runtime import TorchRuntime
from disco_mt.systems.build import build_model
from disco_mt.systems.disco.model import DisCo
from disco_mt.translator import Translator
from small_model import Small, make_small, sentences
from tiny import VOCABULARY, lively, random_sources, tiny_config


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return make_small(tmp_path_factory.mktemp("pruning"))


def model_of(seed: int) -> DisCo:
    model = lively(build_model(tiny_config(), seed), seed)
    assert isinstance(model, DisCo)
    return model


def decoded(
    model: DisCo, sources: list[list[int]], pruning: Pruning | None
) -> tuple[list[Hypothesis[int]], IncrementalEngine]:
    engine = IncrementalEngine(TorchRuntime(model), pruning)
    found = {each.place: each.hypothesis for each in engine.decode(sources, batch_tokens=40)}
    return [found[place] for place in range(len(sources))], engine


@pytest.mark.parametrize("seed", range(5))
def test_off_is_exact(seed: int) -> None:
    model, sources = model_of(seed), random_sources([3, 8, 5], seed)
    exact, _ = decoded(model, sources, None)
    assert Pruning().exact
    assert decoded(model, sources, Pruning())[0] == exact
    far, _ = decoded(model, sources, Pruning(drop_behind=1e9))
    assert far == exact


def test_a_list_of_every_word_gives_the_same_words(tmp_path: Path) -> None:
    """The softmax runs over words alone then, so scores are a little higher."""
    model, sources = model_of(1), random_sources([3, 8, 5], 1)
    every = Shortlist(torch.full((VOCABULARY, 1), -1), torch.arange(NUM_SPECIAL, VOCABULARY))
    every.save(tmp_path / "all.safetensors")
    exact, _ = decoded(model, sources[:1], None)
    (listed, *_), _ = decoded(model, sources, Pruning(shortlist=str(tmp_path / "all.safetensors")))
    assert len(listed.tokens) in {len(each) for each in exact[0].candidates}
    with torch.inference_mode():
        first = next(IncrementalEngine(TorchRuntime(model)).decode(sources[:1], iterations=1)).hypothesis
        engine = IncrementalEngine(TorchRuntime(model), Pruning(shortlist=str(tmp_path / "all.safetensors")))
        again = next(engine.decode(sources[:1], iterations=1)).hypothesis
    assert again.candidates == first.candidates
    assert again.score >= first.score


def test_candidates_that_fall_behind_cost_nothing_more() -> None:
    model, sources = model_of(2), random_sources([6, 9, 7, 4], 2)
    exact, whole = decoded(model, sources, None)
    pruned, less = decoded(model, sources, Pruning(drop_behind=1e-9, drop_after=1))
    assert less.work.rows < whole.work.rows
    assert less.work.keys < whole.work.keys
    for found, wanted in zip(pruned, exact, strict=True):  # the leader of the first pass is all that is left
        assert found.tokens in found.candidates
        assert len(found.tokens) in {len(each) for each in wanted.candidates}
    _, some = decoded(model, sources, Pruning(drop_behind=1e-9, drop_after=3))
    assert less.work.rows < some.work.rows <= whole.work.rows


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
    assert main([*translate, "--drop-behind", "0.1"]) == 0
    capsys.readouterr()
    assert main(command) == 2  # it exists
    assert "already exists" in capsys.readouterr().err
    allowed, translator = (
        Shortlist.load(file),
        Translator.from_pretrained(small.disco, pruning=Pruning(shortlist=str(file))),
    )
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
    with pytest.raises(UserError, match="drop_behind must be at least 0"):
        Pruning(drop_behind=-1)
    with pytest.raises(UserError, match="drop_after must be at least 1"):
        Pruning(drop_after=0)
    with pytest.raises(UserError, match=r"is not a shortlist.*disco shortlist"):
        Translator.from_pretrained(small.disco, pruning=Pruning(shortlist=str(tmp_path / "none")))
    Shortlist(torch.full((7, 1), 5), torch.tensor([6])).save(tmp_path / "other")
    with pytest.raises(UserError, match="of another vocabulary: it has 7 source tokens"):
        Translator.from_pretrained(small.disco, pruning=Pruning(shortlist=str(tmp_path / "other")))
    with pytest.raises(UserError, match="engine reference cannot prune"):
        Translator.from_pretrained(small.cmlm, pruning=Pruning(drop_behind=0.1))
