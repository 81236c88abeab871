"""The chunked loss and its gradients equal the plain ones, without the full matrix."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.nn import cross_entropy
from disco_mt.nn.cross_entropy import OutputLayer, SoftTargets, linear_cross_entropy

Gradients = tuple[torch.Tensor, ...]


def draw(rows: int, vocabulary: int, width: int = 5, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states and an output layer, in float64."""
    generator = torch.Generator().manual_seed(rows * 100 + vocabulary + 10_000 * seed)
    kind = {"dtype": torch.float64, "generator": generator}
    return torch.randn(rows, width, **kind), torch.randn(vocabulary, width, **kind)  # type: ignore[call-overload]


def plain(hidden: torch.Tensor, weight: torch.Tensor, wanted: torch.Tensor, smoothing: float) -> torch.Tensor:
    """(1 - eps) * nll + eps / V * sum over the vocabulary, written out."""
    log_probs = (hidden @ weight.T).log_softmax(1)
    nll = -log_probs.gather(1, wanted[:, None]).sum()
    return (1 - smoothing) * nll - smoothing / len(weight) * log_probs.sum()


@given(st.integers(0, 9), st.integers(2, 20), st.floats(0, 1), st.integers(1, 200))
@settings(max_examples=50, deadline=None)
def test_equals_the_plain_loss(rows: int, vocabulary: int, smoothing: float, at_once: int) -> None:
    generator = torch.Generator().manual_seed(rows * 100 + vocabulary)
    hidden = torch.randn(rows, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    weight = torch.randn(vocabulary, 5, dtype=torch.float64, generator=generator, requires_grad=True)
    wanted = torch.randint(vocabulary, (rows,), generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_entropy, "_MAX_LOGITS", at_once)
        loss, nll = linear_cross_entropy(hidden, OutputLayer(weight), wanted, smoothing)
    expected = plain(hidden, weight, wanted, smoothing)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, F.cross_entropy(hidden @ weight.T, wanted, reduction="sum"))
    ours = torch.autograd.grad(loss * 3, (hidden, weight))
    theirs = torch.autograd.grad(expected * 3, (hidden, weight))
    torch.testing.assert_close(ours, theirs)


class Largest(TorchDispatchMode):
    """Notes the size of the largest tensor that any operation returns."""

    entries = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.entries = max(self.entries, tensor.numel())
        return out


def test_memory_is_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """500 rows x 1,000 entries would be 500,000; nothing larger than the weights or a chunk is ever made."""
    monkeypatch.setattr(cross_entropy, "_MAX_LOGITS", 10_000)
    hidden = torch.randn(500, 8, requires_grad=True)
    weight = torch.randn(1000, 8, requires_grad=True)
    with Largest() as watch:
        loss, _ = linear_cross_entropy(hidden, OutputLayer(weight), torch.zeros(500, dtype=torch.long), 0.1)
        loss.backward()
    assert watch.entries <= 10_000


# Biases and soft targets


def plain_soft(
    logits: torch.Tensor, wanted: torch.Tensor, smoothing: float, teacher: torch.Tensor, share: float
) -> torch.Tensor:
    """The cross entropy with (1 - share) (smoothed words) + share (the teacher's words), written out."""
    log_probs = logits.log_softmax(1)
    smoothed = torch.full_like(log_probs, smoothing / log_probs.shape[1])
    smoothed[torch.arange(len(wanted)), wanted] += 1 - smoothing
    words = teacher.clone()
    words[:, :NUM_SPECIAL] = -torch.inf
    return -(((1 - share) * smoothed + share * words.softmax(1)) * log_probs).sum()


@given(
    st.integers(0, 9),
    st.integers(NUM_SPECIAL + 1, 20),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.tuples(st.booleans(), st.booleans()),
    st.integers(1, 200),
)
@settings(max_examples=80, deadline=None)
def test_soft_targets_equal_the_plain_loss(
    rows: int, vocabulary: int, smoothing: float, share: float, biases: tuple[bool, bool], at_once: int
) -> None:
    """Loss and gradients of hidden states, weights and bias; the teacher has another width."""
    learnt = [tensor.requires_grad_() for tensor in draw(rows, vocabulary)]
    hidden, weight = learnt
    its_hidden, its_weight = draw(rows, vocabulary, width=3, seed=1)
    generator = torch.Generator().manual_seed(rows)
    bias, its_bias = (
        torch.randn(vocabulary, dtype=torch.float64, generator=generator) if has else None for has in biases
    )
    wanted = torch.randint(vocabulary, (rows,), generator=generator)
    logits, its_logits = hidden @ weight.T, its_hidden @ its_weight.T
    if bias is not None:
        learnt.append(bias.requires_grad_())
        logits = logits + bias
    if its_bias is not None:
        its_logits = its_logits + its_bias
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_entropy, "_MAX_LOGITS", at_once)
        soft = SoftTargets(its_hidden, its_weight, its_bias, share)
        loss, nll = linear_cross_entropy(hidden, OutputLayer(weight, bias), wanted, smoothing, soft)
    expected = plain_soft(logits, wanted, smoothing, its_logits, share)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, F.cross_entropy(logits, wanted, reduction="sum"))
    torch.testing.assert_close(
        torch.autograd.grad(loss * 3, learnt), torch.autograd.grad(expected * 3, learnt)
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_bias_is_as_if_the_states_had_one_more_dimension(smoothing: float) -> None:
    hidden, weight = draw(6, 12)
    bias = torch.randn(12, dtype=torch.float64, requires_grad=True)
    wanted = torch.arange(6)
    loss, _ = linear_cross_entropy(hidden, OutputLayer(weight, bias), wanted, smoothing)
    wider = torch.cat([hidden, torch.ones(6, 1)], 1), torch.cat([weight, bias[:, None]], 1)
    expected = plain(*wider, wanted, smoothing)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(torch.autograd.grad(loss, bias), torch.autograd.grad(expected, bias))


@pytest.mark.parametrize("biased", [False, True])
def test_share_0_is_the_hard_loss(biased: bool) -> None:
    (hidden, weight), teacher = draw(6, 12), draw(6, 12, seed=1)
    bias = torch.arange(12, dtype=torch.float64) if biased else None
    losses: list[torch.Tensor] = []
    gradients: list[Gradients] = []
    for soft in (None, SoftTargets(*teacher, None, 0.0)):
        learnt = [tensor.clone().requires_grad_() for tensor in (hidden, weight)]
        loss, _ = linear_cross_entropy(learnt[0], OutputLayer(learnt[1], bias), torch.arange(6), 0.1, soft)
        losses.append(loss)
        gradients.append(torch.autograd.grad(loss, learnt))
    assert torch.equal(*losses)
    torch.testing.assert_close(*gradients)


def test_special_tokens_get_nothing_from_the_teacher() -> None:
    """However confident it is of EOS; words are renormalised."""
    weight = torch.zeros(NUM_SPECIAL + 2, 1)
    weight[:NUM_SPECIAL] = 50.0
    bias = torch.zeros(NUM_SPECIAL + 2)
    bias[-1] = math.log(3)
    soft = SoftTargets(torch.ones(4, 1), weight, bias, 1.0)
    found = soft.probabilities(slice(1, 3), torch.float32)
    assert found.shape == (2, NUM_SPECIAL + 2)
    assert found[0].tolist() == pytest.approx([0] * NUM_SPECIAL + [0.25, 0.75])


def test_half_precision_products_with_soft_targets() -> None:
    """bfloat16 products under autocast: near the exact loss, and sums in float32."""
    hidden, weight = (tensor.float().requires_grad_() for tensor in draw(7, 30))
    teacher = tuple(tensor.float() for tensor in draw(7, 30, seed=1))
    soft = SoftTargets(*teacher, None, 0.5)
    exact, _ = linear_cross_entropy(hidden, OutputLayer(weight), torch.arange(7), 0.1, soft)
    with torch.autocast("cpu", torch.bfloat16):
        rough, _ = linear_cross_entropy(hidden, OutputLayer(weight), torch.arange(7), 0.1, soft)
    assert rough.dtype == torch.float32
    assert rough.item() == pytest.approx(exact.item(), rel=0.02)
    assert rough.item() != exact.item()
