"""Mixed precision: products in half, weights and sums in float32; and what a device cannot do is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_run
import torch
from test_resume import interrupting
from tiny_run import OBJECTIVE, OPTIONS, go, last, same, story
from torch.utils._python_dispatch import TorchDispatchMode

from disco_mt.core import mkl
from disco_mt.core.batch import Batch
from disco_mt.core.errors import UserError
from disco_mt.core.machine import avoid_broken_amx
from disco_mt.nn.losses import Losses
from disco_mt.training import speed
from disco_mt.training.speed import MixedPrecision, check_precision

avoid_broken_amx()
SCALE = 2.0**10  # float16 needs it
HALVES = [
    "bf16",
    pytest.param(
        "fp16",
        marks=pytest.mark.skipif(
            not torch.ops.mkldnn._is_mkldnn_fp16_supported(), reason="this processor has no float16 products"
        ),
    ),
]


class Types(TorchDispatchMode):
    """Which types each operation was given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, set[torch.dtype]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        floats = {arg.dtype for arg in args if isinstance(arg, torch.Tensor) and arg.is_floating_point()}
        self.seen.setdefault(func.overloadpacket.__name__, set()).update(floats)
        return func(*args, **(kwargs or {}))


def batch(tmp_path: Path) -> Batch:
    from disco_mt.data.batches import collate, plan_epoch

    split = tiny_run.dataset(tmp_path / "data").splits["train"]
    return collate(split, plan_epoch(split.source_lengths, split.target_lengths, 256, seed=1, epoch=1)[0])


def losses(tmp_path: Path, kind: str) -> tuple[Losses, dict[str, torch.Tensor]]:
    model = tiny_run.model(dropout=0.0)
    mixed = MixedPrecision(kind)
    model.loss_by_mkl = mixed.by_mkl
    with mixed.computing():
        found = OBJECTIVE(model, batch(tmp_path), 7)
    torch.autograd.backward(found.total * SCALE)
    return found, {name: p.grad / SCALE for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("kind", HALVES)
def test_near_float32_and_float32_where_it_must_be(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mkl, "available", lambda: False)  # as on a GPU
    exact, exact_gradients = losses(tmp_path, "fp32")
    with Types() as types:
        found, gradients = losses(tmp_path, kind)
    assert found.total.dtype == torch.float32
    assert found.total.item() == pytest.approx(exact.total.item(), rel=0.01)
    for name, gradient in gradients.items():
        assert gradient.dtype == torch.float32
        distance = (gradient - exact_gradients[name]).norm() / exact_gradients[name].norm()
        assert distance < 0.05, name
    half = speed.HALF[kind]
    assert half in types.seen["addmm"]
    for name in ("native_layer_norm", "_log_softmax", "exp_", "native_layer_norm_backward"):
        assert types.seen[name] == {torch.float32}, name
    assert (half in types.seen["mm"]) is True


@pytest.mark.skipif(not mkl.available(), reason="this torch has no MKL")
def test_products_by_mkl_round_their_factors_only(tmp_path: Path) -> None:
    exact, exact_gradients = losses(tmp_path, "fp32")
    with Types() as types:
        found, gradients = losses(tmp_path, "bf16")
    assert "addmm" not in types.seen  # torch does not know of them
    assert types.seen["_scaled_dot_product_flash_attention_for_cpu"] == {torch.float32}
    assert found.total.item() == pytest.approx(exact.total.item(), rel=1e-3)
    assert found.total.item() != exact.total.item()
    for name, gradient in gradients.items():
        distance = (gradient - exact_gradients[name]).norm() / exact_gradients[name].norm()
        assert distance < 0.02, name


@pytest.mark.skipif(not mkl.available(), reason="this torch has no MKL")
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_mkl_multiplies_exactly_what_it_is_given(transposed: tuple[bool, bool]) -> None:
    random = torch.Generator().manual_seed(1)
    shapes = (5, 7), (7, 3)
    left, right = (
        torch.randint(-9, 9, shape[::-1] if turned else shape, generator=random).bfloat16()
        for shape, turned in zip(shapes, transposed, strict=True)
    )
    left, right = left.T if transposed[0] else left, right.T if transposed[1] else right
    wanted = left.float() @ right.float()
    assert torch.equal(mkl.product(left, right, torch.full((5, 3), 4.0)), wanted)
    assert torch.equal(mkl.product(left, right, torch.full((5, 3), 4.0), add=True), wanted + 4)
    assert torch.equal(mkl.product(left[:, :0], right[:0], torch.ones(5, 3)), torch.zeros(5, 3))


@pytest.mark.parametrize("kind", HALVES)
def test_a_run_learns_and_resumes_bit_for_bit(tmp_path: Path, kind: str) -> None:
    options = replace(OPTIONS, precision=kind)  # type: ignore[arg-type]
    go(tmp_path / "straight", options)
    go(tmp_path / "run", options, objective=interrupting(16))
    go(tmp_path / "run", options, resume=True)
    assert same(last(tmp_path / "run"), last(tmp_path / "straight"))
    assert story(tmp_path / "run") == story(tmp_path / "straight")
    assert all(tensor.dtype == torch.float32 for tensor in last(tmp_path / "run").values())
    go(tmp_path / "exact")
    assert not same(last(tmp_path / "run"), last(tmp_path / "exact"))
    lines = [
        [line["loss"] for line in story(tmp_path / name) if line["kind"] == "train"]
        for name in ("run", "exact")
    ]
    assert lines[0] == pytest.approx(lines[1], rel=0.02)


@pytest.mark.skipif(not torch.ops.mkldnn._is_mkldnn_fp16_supported(), reason="no float16 products")
def test_float16_scales_its_losses_and_remembers_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A factor that is too large is halved until nothing overflows; those updates are skipped."""
    monkeypatch.setattr(speed, "_FIRST_SCALE", 2.0**40)
    run = tmp_path / "run"
    go(run, replace(OPTIONS, precision="fp16"))
    state = json.loads((run / "checkpoints" / "step-00000011" / "state.json").read_text())["state"]
    assert state["skipped"] == 11
    assert state["scaler"]["scale"] == 2.0**29


def test_a_run_from_before_there_was_a_choice_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    go(run, replace(OPTIONS, max_steps=5))
    forget(run, "training.precision")
    with pytest.raises(UserError, match=r"training.precision is 'bf16', but .* was started with 'fp32'"):
        go(run, replace(OPTIONS, precision="bf16"), resume=True)
    go(run, resume=True)
    go(tmp_path / "straight")
    assert same(last(run), last(tmp_path / "straight"))


def forget(run: Path, name: str) -> None:
    """Make the newest checkpoint one of an older Disco."""
    from disco_mt.training.checkpoints import _digest

    path = sorted((run / "checkpoints").iterdir())[-1] / "state.json"
    content: dict[str, Any] = json.loads(path.read_text())
    del content["settings"][name], content["state"]["scaler"], content["sha256"]
    path.write_text(json.dumps({**content, "sha256": _digest(content)}))


def test_refusals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_fp16_supported", lambda: False, raising=False)
    with pytest.raises(UserError, match="fp16 needs --device cuda"):
        check_precision("fp16", "cpu")
    with pytest.raises(UserError, match=r"training.precision must be one of fp32, bf16, fp16; got 'fp8'"):
        replace(OPTIONS, precision="fp8")  # type: ignore[arg-type]
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UserError, match=r"needs a C\+\+ compiler .* no no-such-compiler"):
        go(tmp_path / "run", replace(OPTIONS, compile=True))
    assert not (tmp_path / "run").exists()


@pytest.fixture
def eager_backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """torch.compile without a C++ compiler's minutes: traced and run as it is; counts the graphs."""
    graphs: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        graphs.append(len(inputs))
        return graph.forward

    monkeypatch.setattr(speed, "BACKEND", backend)
    yield graphs
    torch.compiler.reset()


def test_compiled_layers_train_the_same_weights(tmp_path: Path, eager_backend: list[int]) -> None:
    options = replace(OPTIONS, max_steps=2)
    go(tmp_path / "plain", options)
    go(tmp_path / "compiled", replace(options, compile=True))
    assert eager_backend
    ours, theirs = last(tmp_path / "compiled"), last(tmp_path / "plain")
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        torch.testing.assert_close(tensor, theirs[name], rtol=1e-4, atol=1e-5)
