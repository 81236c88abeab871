"""The chunked loss equals the plain one, gradients too, and never holds the whole matrix."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from disco_mt.objectives import cross_entropy
from disco_mt.objectives.cross_entropy import linear_cross_entropy


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
        patch.setattr(cross_entropy, "_LOGITS_AT_ONCE", at_once)
        loss, nll = linear_cross_entropy(hidden, weight, wanted, smoothing)
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
    monkeypatch.setattr(cross_entropy, "_LOGITS_AT_ONCE", 10_000)
    hidden = torch.randn(500, 8, requires_grad=True)
    weight = torch.randn(1000, 8, requires_grad=True)
    with Largest() as watch:
        loss, _ = linear_cross_entropy(hidden, weight, torch.zeros(500, dtype=torch.long), 0.1)
        loss.backward()
    assert watch.entries <= 10_000
