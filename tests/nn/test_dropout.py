"""Dropout drops at its rate, keeps the expectation, and follows the seed."""

from __future__ import annotations

import pytest
import torch

from disco_mt.nn.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_rate_and_expectation(p: float) -> None:
    torch.manual_seed(1)
    x = torch.ones(1000, 1003)
    out = Dropout(p)(x)
    assert (out == 0).double().mean().item() == pytest.approx(p, abs=0.002)  # 4 standard errors of 1e6 draws
    assert out.double().mean().item() == pytest.approx(1, abs=0.005)
    places = (out == 0).view(-1)[: 1003 * 1000 // 4 * 4].view(-1, 4).double().mean(0)
    assert (places - p).abs().max() < 0.004  # each of the four draws from one integer is fair


def test_follows_the_seed_and_differs_otherwise() -> None:
    torch.manual_seed(5)
    first, second = (Dropout(0.5)(torch.ones(64)) for _ in range(2))
    torch.manual_seed(5)
    assert torch.equal(Dropout(0.5)(torch.ones(64)), first)
    assert not torch.equal(first, second)


def test_off_in_evaluation_and_gradient_flows_through_what_is_kept() -> None:
    x = torch.ones(100, requires_grad=True)
    assert Dropout(0.5).eval()(x) is x
    torch.manual_seed(2)
    out = Dropout(0.5)(x)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())
