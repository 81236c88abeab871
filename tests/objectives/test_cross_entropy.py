"""The chunked loss equals the plain one, gradients too, and never holds the whole matrix."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_memory_is_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest matrix product made is that of a chunk."""
    largest = 0
    real = torch.Tensor.__matmul__

    def watch(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        nonlocal largest
        out = real(a, b)
        largest = max(largest, out.numel())
        return out

    monkeypatch.setattr(torch.Tensor, "__matmul__", watch)
    monkeypatch.setattr(cross_entropy, "_LOGITS_AT_ONCE", 1000)
    hidden, weight = torch.randn(500, 8), torch.randn(100, 8)
    linear_cross_entropy(hidden, weight, torch.zeros(500, dtype=torch.long), 0.1)
    assert 0 < largest <= 1000
