"""The probe: every figure against a plain loop over words."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from disco_mt import context
from disco_mt.core.counter_rng import sentence_keys
from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.data.batches import collate
from disco_mt.data.dataset import Side, Split
from disco_mt.evaluation.probe import SEEN, Mean, Probe, probe
from disco_mt.nn.base import TranslationModel
from disco_mt.systems.disco.model import DisCo
from tiny import POOLED, VOCABULARY

LENGTHS = [3, 9, 1, 20, 6, 2]


def split_of(lengths: list[int]) -> Split:
    random, offsets = np.random.default_rng(1), np.concatenate([[0], np.cumsum(lengths)])
    sides = [
        Side(random.integers(NUM_SPECIAL, VOCABULARY, offsets[-1]).astype(np.uint16), offsets) for _ in "st"
    ]
    return Split(Path(), "valid", *sides)


@pytest.fixture
def model(make_model: Callable[..., TranslationModel]) -> DisCo:
    made = make_model(length=POOLED, start_token=True, query_word=True, output_bias=True)
    assert isinstance(made, DisCo)
    return made


@torch.no_grad()
def slowly(model: DisCo, split: Split, sentences: list[int]) -> tuple[dict[str, list[float]], list[int]]:
    """Sentence by sentence, word by word; and how many words each saw in the random contexts."""
    losses: dict[str, list[float]] = {name: [] for name in ("left to right", "random", "nothing", "length")}
    seen: list[int] = []
    for number in sentences:
        batch = collate(split, np.array([number], np.int32))
        words, eos = context.words_and_eos(batch.target)
        encoded = model.encode(batch.source)
        assert encoded.length_log_probs is not None
        losses["length"].append(-encoded.length_log_probs[0, batch.target.shape[1]].item())
        contexts = {
            "left to right": context.left_to_right(words, eos),
            "random": context.random(sentence_keys(1, torch.tensor([number])), words, eos),
            "nothing": context.nothing(words, eos),
        }
        for name, visible in contexts.items():
            logs = model.logits(model.decode(batch.target, visible, encoded)[0]).log_softmax(-1)
            losses[name] += [-logs[n, batch.target[0, n]].item() for n in range(batch.target.shape[1] - 1)]
        seen += (contexts["random"] & words[:, None]).sum(dim=-1)[words].tolist()
    return losses, seen


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def test_figures_are_those_of_a_plain_loop(model: DisCo) -> None:
    split = split_of(LENGTHS)
    losses, seen = slowly(model, split, list(range(len(LENGTHS))))
    figures = probe(model, split, 100).figures()
    for name, values in losses.items():
        assert figures[name] == pytest.approx(mean(values), rel=1e-9), name
    for name, least, most in (("0 visible", 0, 0), ("2 to 3 visible", 2, 3), ("8 to 15 visible", 8, 15)):
        chosen = [
            loss for loss, number in zip(losses["random"], seen, strict=True) if least <= number <= most
        ]
        assert figures[name] == pytest.approx(mean(chosen), rel=1e-9), name


def test_the_first_so_many_pairs(model: DisCo) -> None:
    """Whatever comes after them; pairs that are too long for the model are passed over."""
    losses, _ = slowly(model, split_of(LENGTHS), [0, 1, 2])
    found = probe(model, split_of(LENGTHS), 3)
    assert found.contexts["nothing"].number == 3 + 9 + 1
    assert found.contexts["nothing"].value == pytest.approx(mean(losses["nothing"]), rel=1e-9)
    assert (
        probe(model, split_of([32, 3, 50, 31]), 2).contexts["random"].number == 3 + 31
    )  # it has 32 positions
    with pytest.raises(UserError, match="the valid split has no pair that the model can read: it reads 32"):
        probe(model, split_of([32, 50]), 10)


def test_bins_by_visible_words() -> None:
    names = list(Probe().figures())
    assert names == [
        *("left to right", "random", "nothing"),
        *("0 visible", "1 visible", "2 to 3 visible", "4 to 7 visible", "8 to 15 visible"),
        *("16 or more visible", "length"),
    ]
    assert len(SEEN) == 6


def test_every_word_is_in_one_bin(model: DisCo) -> None:
    found = probe(model, split_of(LENGTHS), 100)
    assert sum(each.number for each in found.seen.values()) == sum(LENGTHS)
    total = sum(each.total for each in found.seen.values())
    assert total == pytest.approx(found.contexts["random"].total, rel=1e-9)


def test_two_models_are_asked_the_same(model: DisCo) -> None:
    assert probe(model, split_of(LENGTHS), 9).figures() == probe(model, split_of(LENGTHS), 9).figures()


def test_means() -> None:
    found = Mean()
    assert math.isnan(found.value)
    found.add(torch.tensor([1.0, 2.0]))
    found.add(torch.tensor([6.0]))
    assert (found.value, found.number) == (3.0, 3)
    assert json.dumps(found.value) == "3.0"
