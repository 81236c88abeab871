"""Groups of batches: complete, restartable, shared out, and normalised by their words."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import tiny_run
import torch
from tiny_run import OBJECTIVE

from disco_mt.training.gradients import GradientAccumulator, normalise
from disco_mt.training.updates import Plan, Position, Update


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan(tiny_run.dataset(tmp_path).splits["train"], batch_tokens=192, max_tokens=64, seed=1)


def pairs(updates: list[Update]) -> list[int]:
    return [int(index) for update in updates for _, indices in update.batches for index in indices]


def test_an_epoch_is_used_once(plan: Plan) -> None:
    updates = list(islice(plan.updates(Position()), 8))
    assert [len(update.batches) for update in updates] == [3, 3, 3, 1, 3, 3, 3, 1]
    assert [update.ends_epoch for update in updates] == [False, False, False, True] * 2
    assert updates[3].after == Position(2, 0)
    assert sorted(pairs(updates[:4])) == sorted(pairs(updates[4:])) == list(range(70))
    assert pairs(updates[:4]) != pairs(updates[4:])


def test_restart_anywhere(plan: Plan) -> None:
    straight = list(islice(plan.updates(Position()), 9))
    for done, update in enumerate(straight[:-1], start=1):
        again = list(islice(replace(plan, _last={}).updates(update.after), 9 - done))
        assert pairs(again) == pairs(straight[done:])
        assert [update.after for update in again] == [update.after for update in straight[done:]]


@pytest.mark.parametrize(
    ("batch_tokens", "max_tokens", "world", "accumulation"),
    [
        (128_000, 8_192, 1, 16),
        (128_000, 8_192, 16, 1),
        (128_000, 4_096, 16, 2),
        (100, 100, 4, 1),
        (250, 100, 1, 2),
    ],
)
def test_accumulation(plan: Plan, batch_tokens: int, max_tokens: int, world: int, accumulation: int) -> None:
    other = replace(plan, batch_tokens=batch_tokens, max_tokens=max_tokens, world=world)
    assert other.accumulation == accumulation
    assert other.group == accumulation * world


def test_processes_share_an_update(plan: Plan) -> None:
    whole = list(islice(plan.updates(Position()), 4))
    shares = [list(islice(replace(plan, world=3, rank=rank).updates(Position()), 4)) for rank in range(3)]
    for number, update in enumerate(whole):
        joined = sorted((batch for share in shares for batch in share[number].batches), key=lambda b: b[0])
        assert [place for place, _ in joined] == [place for place, _ in update.batches]
        for (_, one), (_, other) in zip(joined, update.batches, strict=True):
            np.testing.assert_array_equal(one, other)


def test_another_number_of_processes_repeats_and_skips_nothing(plan: Plan) -> None:
    before = list(islice(plan.updates(Position()), 2))
    # Two processes take two batches each, so the four that are left make one update.
    after = [next(replace(plan, world=2, rank=rank).updates(before[-1].after)) for rank in range(2)]
    assert all(update.ends_epoch for update in after)
    assert sorted(pairs(before) + pairs(after)) == list(range(70))


def test_updates_in_an_epoch(plan: Plan) -> None:
    assert plan.updates_in(1) == 4
    assert plan.words_per_update(1) == plan.split.target_lengths.sum() / 4


def gradient(plan: Plan, number: int, clip: float = 1e9) -> tuple[dict[str, torch.Tensor], float]:
    model = tiny_run.model(dropout=0.0).double()
    update = next(islice(plan.updates(Position()), number, None))
    sums = GradientAccumulator(model, OBJECTIVE).accumulate(plan.split, update, seed=1, step=7)
    norm = normalise(model.parameters(), sums.words, clip)
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}, norm


def test_every_word_weighs_the_same_however_an_update_is_cut(tmp_path: Path) -> None:
    """All pairs as one batch, and as ten batches that are added up."""
    split = tiny_run.dataset(tmp_path).splits["train"]
    whole, whole_norm = gradient(Plan(split, batch_tokens=10_000, max_tokens=10_000, seed=1), 0)
    parts, parts_norm = gradient(Plan(split, batch_tokens=640, max_tokens=64, seed=1), 0)
    assert whole_norm == pytest.approx(parts_norm, rel=1e-6)
    for name, expected in whole.items():
        torch.testing.assert_close(parts[name], expected, rtol=1e-6, atol=1e-9)


def test_clipping(plan: Plan) -> None:
    free, norm = gradient(plan, 0)
    clipped, same_norm = gradient(plan, 0, clip=norm / 4)
    assert same_norm == norm
    for name in free:
        torch.testing.assert_close(clipped[name], free[name] / 4, rtol=1e-4, atol=1e-12)
    loose, _ = gradient(plan, 0, clip=norm * 1.01)
    assert all(torch.equal(loose[name], free[name]) for name in free)


def test_a_gradient_that_is_not_finite_is_left_alone() -> None:
    parameter = torch.nn.Parameter(torch.zeros(2))
    parameter.grad = torch.tensor([torch.inf, 1.0])
    assert normalise([parameter], 10, 1.0) == torch.inf
    assert parameter.grad.tolist() == [torch.inf, 1.0]
