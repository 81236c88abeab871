"""Muon: orthogonal steps for the matrices of the layers, AdamW for all else."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_run
import torch
from test_resume import interrupting
from tiny_run import OPTIONS, go, last, same, story

from disco_mt.core.errors import UserError
from disco_mt.training.muon import Muon, orthogonal
from disco_mt.training.optimizer import build_optimizer
from disco_mt.training.options import TrainingOptions

MUON = replace(OPTIONS, optimizer="muon")


@pytest.mark.parametrize("shape", [(16, 16), (32, 16), (16, 64)])
def test_orthogonal_keeps_the_singular_vectors_and_levels_the_values(shape: tuple[int, int]) -> None:
    matrices = torch.randn(3, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for matrix, found in zip(matrices, orthogonal(matrices), strict=True):
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
        level = left.T @ found @ right.T
        assert torch.allclose(level, level.diagonal().diag(), atol=1e-9)
        strong = values / values.norm() > 1e-3
        assert (level.diagonal()[strong] - 1).abs().max() < 0.35
        assert values.max() / values.min() > 1.5  # they were not level before


def test_a_step_of_a_matrix_is_the_learning_rate_long() -> None:
    """0.2 a number on average, as AdamW's steps have it; the decay is a part of the weights."""
    matrix = torch.nn.Parameter(torch.ones(16, 64))
    other = torch.nn.Parameter(torch.ones(4))
    adamw = torch.optim.AdamW([other], lr=0.01, weight_decay=0.5)
    optimizer = Muon([matrix], adamw)
    gradient = torch.randn(16, 64, generator=torch.Generator().manual_seed(2))
    matrix.grad, other.grad = gradient.clone(), torch.ones(4)
    optimizer.step()
    step = matrix.detach() - (1 - 0.01 * 0.5)
    assert step.square().mean().sqrt() == pytest.approx(0.01 * 0.2, rel=0.2)
    assert torch.allclose(step, -0.01 * 0.2 * 8 * orthogonal(gradient[None])[0], atol=1e-6)
    assert torch.allclose(other.detach(), torch.full((4,), 1 - 0.01 * 0.5 - 0.01), atol=1e-6)


def test_embeddings_norms_and_the_length_predictor_learn_by_adamw(tmp_path: Path) -> None:
    model = tiny_run.model()
    optimizer = build_optimizer(model, MUON)
    assert isinstance(optimizer, Muon)
    orthogonal_ones = {id(parameter) for parameter in optimizer.param_groups[0]["params"]}
    for name, parameter in model.named_parameters():
        in_a_layer = ".layers." in f".{name}" and name.endswith(".weight") and "norm" not in name
        assert (id(parameter) in orthogonal_ones) == in_a_layer, name
    together = [each for group in optimizer.param_groups for each in group["params"]]
    assert {id(each) for each in together} == {id(each) for each in model.parameters()}
    assert len(together) == len({id(each) for each in together})


def test_both_parts_follow_the_schedule(tmp_path: Path) -> None:
    """At a rate of (nearly) nothing nothing moves, be it a matrix of a layer or an embedding."""
    run, still = tmp_path / "run", tiny_run.model()
    before = {name: tensor.clone() for name, tensor in still.state_dict().items()}
    go(run, replace(MUON, learning_rate=1e-9), trained=still)
    for name, tensor in still.state_dict().items():
        assert torch.allclose(before[name], tensor, atol=1e-6), name


@pytest.mark.parametrize("batch", [1, 12, 17])
def test_stopped_and_resumed_is_the_same(tmp_path: Path, batch: int) -> None:
    run, straight = tmp_path / "run", tmp_path / "straight"
    assert go(straight, MUON).reason == "steps"
    assert go(run, MUON, objective=interrupting(batch)).signal == signal.SIGTERM
    assert go(run, MUON, resume=True).reason == "steps"
    assert same(last(run), last(straight))
    assert story(run) == story(straight)
    assert {name.split(".")[0] for name in last(run)} >= {"momentum", "exp_avg", "exp_avg_sq"}


def test_a_run_does_not_change_its_optimizer(tmp_path: Path) -> None:
    run = tmp_path / "run"
    go(run, replace(MUON, max_steps=2))
    with pytest.raises(UserError, match=r"training\.optimizer is 'adamw'.*started with 'muon'"):
        go(run, OPTIONS, resume=True)


def test_an_unknown_optimizer_is_refused() -> None:
    with pytest.raises(UserError, match=r"training\.optimizer must be one of adamw, muon; got 'sgd'"):
        TrainingOptions(optimizer="sgd")  # type: ignore[arg-type]
