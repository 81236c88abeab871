"""kernels.c, function by function, against torch."""

from __future__ import annotations

import ctypes
import subprocess
from ctypes import byref, c_int64
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from disco_mt.core.special_tokens import EOS, NUM_SPECIAL, PAD
from disco_mt.engine import native, torch_runtime
from disco_mt.engine.native import CSeen, CShape, kernels, pointer, quantize
from disco_mt.engine.native_runtime import NativeRuntime
from disco_mt.engine.packed import Linear
from disco_mt.engine.runtime import Rows
from disco_mt.engine.torch_runtime import TorchRuntime
from disco_mt.nn.config import Stack
from small_disco import model_of

needs_kernels = pytest.mark.skipif(kernels() is None, reason="no AMX, or the kernels were not compiled")
SHAPE = CShape(
    width=0, heads=0, hidden=0, pre=0, activation=0, eps=1e-12, active_least=0, zero=128, active_zero=32
)


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def whole_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows as whole numbers, and the scale of each."""
    scale = x.abs().amax(dim=1, keepdim=True) / 127
    return (x / scale.clamp(min=1e-30)).round(), scale


def whole_columns(weight: Tensor) -> tuple[Tensor, Tensor]:
    scale = weight.abs().amax(dim=0) / 127
    return (weight / scale).round(), scale


@needs_kernels
@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(1, 200), inner=st.integers(1, 200), columns=st.integers(1, 100), seed=st.integers(0, 9)
)
def test_a_product_is_that_of_rounded_numbers(rows: int, inner: int, columns: int, seed: int) -> None:
    x, weight, bias = drawn(rows, inner, seed=seed), drawn(inner, columns, seed=seed + 1), drawn(columns)
    x[0] = 0
    found, matrix = torch.full((rows, columns), torch.nan), quantize(Linear(weight, bias), 128)
    sizes = c_int64(rows), byref(matrix.c), pointer(found), None, None, c_int64(columns)
    kernels().disco_product(byref(SHAPE), pointer(x), *sizes)
    (left, row), (right, column) = whole_rows(x), whole_columns(weight)
    wanted = (left.double() @ right.double()) * row * column + bias
    # of numbers half-way between two the kernel may take the other
    close = (found - wanted).abs() <= 1e-4 + row * column * 128
    assert close.all()
    assert (found - wanted).abs().median() < 1e-5


@needs_kernels
def test_a_product_goes_where_it_is_told() -> None:
    x, weight = drawn(3, 64), drawn(64, 32)
    room, matrix = torch.zeros(200), quantize(Linear(weight, torch.zeros(32)), 128)
    rows, columns = torch.tensor([5, 100, 50]), torch.tensor([20, 0])
    places = pointer(rows), pointer(columns), c_int64(32)
    kernels().disco_product(byref(SHAPE), pointer(x), c_int64(3), byref(matrix.c), pointer(room), *places)
    wanted = x @ weight
    for row, start in enumerate(rows.tolist()):
        assert torch.allclose(room[start + 20 : start + 36], wanted[row, :16], atol=0.3)
        assert torch.allclose(room[start : start + 16], wanted[row, 16:], atol=0.3)
    assert room.count_nonzero() == 96


@needs_kernels
@settings(deadline=None, max_examples=60)
@given(
    length=st.integers(1, 70),
    size=st.integers(1, 80),
    heads=st.integers(1, 3),
    rows=st.integers(1, 9),
    seed=st.integers(0, 9),
)
def test_attention_is_that_of_torch(length: int, size: int, heads: int, rows: int, seed: int) -> None:
    groups = torch.arange(rows) // 2
    number = int(groups.max()) + 1
    queries, pair = drawn(rows, heads * size, seed=seed), drawn(2, number, heads, length, size, seed=seed + 1)
    visible = drawn(rows, length, seed=seed) > 0
    visible[:, -1] = True
    found = torch.full_like(queries, torch.nan)
    seen = CSeen(
        *(
            pair[0].data_ptr(),
            pair[1].data_ptr(),
            pair.stride(1),
            length,
            visible.data_ptr(),
            1,
            groups.data_ptr(),
        )
    )
    numbers = (c_int64(each) for each in (heads * size, rows, heads, size))
    kernels().disco_attend(pointer(queries), *numbers, byref(seen), pointer(found))
    wanted = F.scaled_dot_product_attention(
        queries.view(rows, heads, 1, size), *pair[:, groups], attn_mask=visible[:, None, None], scale=1.0
    )
    assert torch.allclose(found, wanted.flatten(1), atol=2e-5)


@needs_kernels
@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("width", [24, 64])
def test_layers_are_those_of_torch_with_rounded_numbers(
    activation: str, norm: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        torch_runtime, "_linear", partial(rounded_linear, hidden=3 * width, activation=activation)
    )
    stack = Stack(2, 4, 3 * width)
    changes = {"activation": activation, "norm": norm, "width": width, "encoder": stack, "decoder": stack}
    model = model_of(5, changes)
    source = torch.tensor([[9, 8, 7, 6, EOS], [9, 8, EOS, PAD, PAD]])
    groups = torch.tensor([0, 0, 0, 1, 1, 1])
    rows = Rows(torch.tensor([0, 1, 2, 0, 1, 3]), groups, groups)
    visible = drawn(6, 5) > 0
    visible[:, 4] = True
    with torch.inference_mode():
        ours, theirs = NativeRuntime(model), TorchRuntime(model)
        encoded, keys = ours.encode(source), torch.zeros(4, 2, 4, 5, width // 4)
        ours.put_keys(torch.arange(5, 15), torch.arange(10) // 5, torch.arange(10) % 5, keys)
        same(encoded.length_log_probs[:, 1:], theirs.encode(source).length_log_probs[:, 1:])
        given = rows, keys[:, :, :, 4].flatten(2).contiguous(), encoded
        same(ours.first_pass(*given), theirs.first_pass(*given))
        given = rows, visible, keys, encoded
        same(ours.later_pass(*given), theirs.later_pass(*given))


def same(found: Tensor, wanted: Tensor) -> None:
    """Except for rare numbers half-way between two integers."""
    assert (found - wanted).abs().mean() < 2e-3 * wanted.abs().mean()


def rounded_linear(x: Tensor, linear: Linear, hidden: int, activation: str) -> Tensor:
    """What a kernel does, in float64."""
    flat, (weight, column) = x.reshape(-1, x.shape[-1]), whole_columns(linear.weight)
    if x.shape[-1] == hidden:  # of an activation
        zero, least = (32, 0.17 / 32) if activation == "gelu" else (0, 0.0)
        row = (flat.amax(dim=1, keepdim=True) / (255 - zero)).clamp(min=max(least, 1e-30))
        whole = (flat / row).round().clamp(min=-zero)
    else:
        whole, row = whole_rows(flat)
    product = (whole.double() @ weight.double()) * row * column + linear.bias
    return product.float().view(*x.shape[:-1], -1)


@needs_kernels
def test_keys_and_values_are_close_to_those_of_torch() -> None:
    for width in (24, 64):  # heads of 6, whose columns must be told apart, and of 16
        stack = Stack(2, 4, 64)
        model = model_of(5, {"width": width, "encoder": stack, "decoder": stack})
        found = [torch.zeros(4, 2, 4, 5, width // 4) for _ in range(2)]
        tokens = torch.arange(5, 12), torch.tensor([0, 0, 0, 0, 1, 1, 1]), torch.tensor([0, 1, 2, 4, 0, 3, 4])
        NativeRuntime(model).put_keys(*tokens, found[0])
        TorchRuntime(model).put_keys(*tokens, found[1])
        assert torch.equal(found[0] == 0, found[1] == 0)
        assert (found[0] - found[1]).abs().max() < 0.02 * found[1].abs().max()


@needs_kernels
@pytest.mark.parametrize("vocabulary", [NUM_SPECIAL + 1, 40, 512, 517, 2000])
@pytest.mark.parametrize("rows", [1, 20, 140])
def test_the_best_words_are_those_of_torch(vocabulary: int, rows: int) -> None:
    model = model_of(2, {"tying": "none", "target_vocabulary": vocabulary})
    with torch.no_grad():
        model.output.weight[:NUM_SPECIAL] *= 3  # likelier than words, and never chosen
    hidden, table = drawn(rows, model.config.width), model.output.weight.detach()
    (left, row), (right, column) = whole_rows(hidden), whole_columns(table.T.contiguous())
    logits = (left.double() @ right.double()) * row * column
    for shares in (1, 3):
        found = NativeRuntime(model, shares).best_words(hidden, None)
        assert (found.ids >= NUM_SPECIAL).all()
        chosen = logits.gather(1, found.ids[:, None])[:, 0]
        assert torch.allclose(chosen, logits[:, NUM_SPECIAL:].amax(dim=1), atol=2e-2)
        assert torch.allclose(found.log_probs.double(), chosen - logits.logsumexp(dim=1), atol=2e-2)
        assert (found.log_probs.double() - chosen + logits.logsumexp(dim=1)).abs().median() < 1e-4


@needs_kernels
def test_far_apart_logits_overflow_nothing() -> None:
    model = model_of(2, {"tying": "none", "target_vocabulary": 1200})
    with torch.no_grad():
        model.output.weight.zero_()[1100] = 100.0
        model.output.weight[600] = 50.0
    found = NativeRuntime(model).best_words(torch.ones(2, model.config.width), None)
    assert found.ids.tolist() == [1100, 1100]
    assert found.log_probs.tolist() == pytest.approx([0, 0], abs=1e-6)


def test_matrices_are_laid_out_as_the_units_want_them() -> None:
    matrix = quantize(Linear(torch.arange(70 * 20.0).view(70, 20) % 127, torch.zeros(20)), 128)
    panels, zeros, scales, bias = matrix.tensors
    assert (matrix.c.inner, matrix.c.out, panels.shape) == (70, 32, (2, 2, 16, 16, 4))
    assert zeros.shape == scales.shape == bias.shape == (32,)
    whole = whole_columns(torch.arange(70 * 20.0).view(70, 20) % 127)[0]
    assert panels[1, 1, 1, 2, 1] == whole[64 + 4 + 1, 16 + 2]  # second columns, second rows, 1 * 4 + 1, 2
    assert panels[1, 1, 5].abs().sum() == 0


@needs_kernels
def test_kernels_that_fail_in_a_child_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    native.kernels.cache_clear()
    monkeypatch.setattr(native, "_TRY", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    monkeypatch.setattr(native, "remembered", lambda question, find_out: find_out())
    assert native.kernels() is None
    monkeypatch.undo()
    native.kernels.cache_clear()
    assert native.kernels() is not None


@needs_kernels
def test_kernels_of_another_version_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in (native.kernels, native._library):
        known.cache_clear()
    monkeypatch.setattr(native, "_FORMAT", -1)
    assert native.kernels() is None
    for known in (native.kernels, native._library):
        known.cache_clear()


def test_other_processors_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    native.kernels.cache_clear()
    monkeypatch.setattr(native, "has_amx_int8", lambda: False)
    assert native.kernels() is None
    native.kernels.cache_clear()


def test_the_source_compiles_to_a_refusal_elsewhere(tmp_path: Path) -> None:
    """Except on x86-64 Linux, only the function that asks for AMX is compiled, and it returns false."""
    source, library = Path(native.__file__).with_name("kernels.c"), tmp_path / "kernels.so"
    try:
        subprocess.run(["cc", "-U__linux__", "-shared", "-fPIC", "-o", library, source], check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("no C compiler")
    assert ctypes.CDLL(str(library)).disco_amx_allowed() == 0
