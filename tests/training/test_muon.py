"""Muon: orthogonal steps for the matrices of the layers, AdamW for all else."""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_run
import torch
from safetensors.torch import load_file, save_file
from test_resume import interrupting
from tiny_run import OPTIONS, go, last, same, story

from disco_mt.core.errors import UserError
from disco_mt.core.files import sha256
from disco_mt.training.checkpoints import _digest, step_directories
from disco_mt.training.optimizer import MuonAndAdamW, _adamw, _muon, build_optimizer
from disco_mt.training.options import TrainingOptions

MUON = replace(OPTIONS, optimizer="muon")


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """Jordan's iteration in full precision: the specification, in five lines."""
    x = matrix / matrix.norm()
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x


def reference(
    weights: torch.Tensor, gradients: list[torch.Tensor], rate: float, decay: float
) -> torch.Tensor:
    """Muon as version 0.1 had it, in float64: Nesterov momentum of means, steps of AdamW's size."""
    mean = torch.zeros_like(weights)
    for gradient in gradients:
        mean = 0.95 * mean + 0.05 * gradient
        step = orthogonal(0.05 * gradient + 0.95 * mean)
        weights = weights * (1 - rate * decay) - rate * 0.2 * max(weights.shape) ** 0.5 * step
    return weights


@pytest.mark.parametrize("shape", [(16, 16), (32, 16), (16, 64), (192, 64)])
def test_torch_has_the_muon_that_we_had(shape: tuple[int, int]) -> None:
    """But for its products in bfloat16, which change a step by some percent, in no direction of its own."""
    random = torch.Generator().manual_seed(1)
    gradients = [torch.randn(shape, generator=random, dtype=torch.float64) for _ in range(5)]
    matrix, other = torch.nn.Parameter(torch.ones(shape)), torch.nn.Parameter(torch.ones(4))
    options = replace(MUON, learning_rate=0.01, weight_decay=0.5)
    optimizer = MuonAndAdamW(_muon([matrix], options), _adamw([other], options))
    for gradient in gradients:
        matrix.grad, other.grad = gradient.float(), torch.ones(4)
        optimizer.step()
    still = torch.full(shape, (1 - 0.01 * 0.5) ** 5, dtype=torch.float64)
    wanted = reference(torch.ones(shape, dtype=torch.float64), gradients, 0.01, 0.5) - still
    found = matrix.detach().double() - still
    assert (found - wanted).norm() < 0.03 * wanted.norm()
    assert found.norm() == pytest.approx(float(wanted.norm()), rel=0.01)
    assert not torch.equal(other.detach(), torch.ones(4))


def test_embeddings_norms_and_the_length_predictor_learn_by_adamw(tmp_path: Path) -> None:
    model = tiny_run.model()
    optimizer = build_optimizer(model, MUON)
    assert isinstance(optimizer, MuonAndAdamW)
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
    assert {name.split(".")[0] for name in last(run)} >= {"momentum_buffer", "exp_avg", "exp_avg_sq"}


def test_a_run_of_version_0_1_goes_on(tmp_path: Path) -> None:
    """Its momentum had another name in the checkpoints, and the same meaning."""
    run, old = tmp_path / "run", tmp_path / "old"
    go(run, replace(MUON, max_steps=5))
    shutil.copytree(run, old)
    rename_momentum(step_directories(old / "checkpoints")[-1])
    go(run, MUON, resume=True)
    go(old, MUON, resume=True)
    assert same(last(run), last(old))


def rename_momentum(checkpoint: Path) -> None:
    """As version 0.1 wrote it."""
    file, state = checkpoint / "optimizer.safetensors", checkpoint / "state.json"
    tensors = {name.replace("momentum_buffer.", "momentum."): each for name, each in load_file(file).items()}
    assert any(name.startswith("momentum.") for name in tensors)
    save_file(tensors, file)
    content = json.loads(state.read_text())
    del content["sha256"]
    content["files"][file.name] = sha256(file)
    state.write_text(json.dumps({**content, "sha256": _digest(content)}))


def test_a_run_does_not_change_its_optimizer(tmp_path: Path) -> None:
    run = tmp_path / "run"
    go(run, replace(MUON, max_steps=2))
    with pytest.raises(UserError, match=r"training\.optimizer is 'adamw'.*started with 'muon'"):
        go(run, OPTIONS, resume=True)


def test_an_unknown_optimizer_is_refused() -> None:
    with pytest.raises(UserError, match=r"training\.optimizer must be one of adamw, muon; got 'sgd'"):
        TrainingOptions(optimizer="sgd")  # type: ignore[arg-type]
