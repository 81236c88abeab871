"""Muon (Jordan et al. 2024): the matrices of the layers learn by orthogonal steps, all else by AdamW.

The momentum of a matrix has a few strong directions and many weak ones, which AdamW hardly learns. Muon makes
all its singular values (nearly) 1 before the step, so that weak directions count, too. Steps are scaled to
AdamW's size (Liu et al. 2025: 0.2 sqrt(longer side)), so that both share one learning rate and one decay.

Not in the paper, whose models have hundreds of thousands of updates; those of a desk have some thousand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

# Jordan's a x + b x^3 + c x^5: applied five times it brings every singular value in (0, 1] near 1.
_POLYNOMIAL = 3.4445, -4.7750, 2.0315
_TIMES = 5


class Muon(torch.optim.Optimizer):
    """Muon for `matrices`; `adamw` goes on with the parameters that it has. The state of both is one."""

    def __init__(
        self, matrices: Iterable[nn.Parameter], adamw: torch.optim.AdamW, momentum: float = 0.95
    ) -> None:
        (others,) = adamw.param_groups
        shared = {key: others[key] for key in ("lr", "weight_decay")}
        super().__init__(matrices, {**shared, "momentum": momentum})
        self.param_groups.append(others)
        self.adamw = adamw
        adamw.state = self.state

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of all parameters. Matrices of one shape go through the products together."""
        self.adamw.step()
        group = self.param_groups[0]
        rate = group["lr"]
        for shape, parameters in _by_shape(group["params"]).items():
            momenta = torch.stack([self._momentum(each, group["momentum"]) for each in parameters])
            size = rate * 0.2 * max(shape) ** 0.5
            for parameter, direction in zip(parameters, orthogonal(momenta), strict=True):
                parameter.mul_(1 - rate * group["weight_decay"]).add_(direction, alpha=-size)

    def _momentum(self, parameter: nn.Parameter, momentum: float) -> Tensor:
        """The mean of the gradients so far, the newest counted once more (Nesterov)."""
        assert parameter.grad is not None
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        mean: Tensor = state["momentum"].lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(mean, momentum)


def _by_shape(parameters: Iterable[nn.Parameter]) -> dict[torch.Size, list[nn.Parameter]]:
    found: dict[torch.Size, list[nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.grad is not None:
            found.setdefault(parameter.shape, []).append(parameter)
    return found


def orthogonal(matrices: Tensor) -> Tensor:
    """The same singular vectors, with singular values near 1 (0.7 to 1.2), without finding them.

    matrices: (number, rows, columns). Smaller values than a thousandth of the norm come out smaller.
    """
    if matrices.shape[1] > matrices.shape[2]:  # the square is that of the shorter side
        return orthogonal(matrices.mT).mT
    a, b, c = _POLYNOMIAL
    x: Tensor = matrices / (matrices.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(_TIMES):
        square = x @ x.mT
        factor = torch.baddbmm(square, square, square, beta=b, alpha=c)  # b + c x^2, times x^2
        x = torch.baddbmm(x, factor, x, beta=a)
    return x
