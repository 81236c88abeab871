"""Label-smoothed cross entropy straight from hidden states, without the (tokens x vocabulary) matrix.

Rows go in chunks; a chunk's logits become its loss and, at once, its share of the gradients. So memory is
one chunk of logits, and the product is not computed a second time in the backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_LOGITS_AT_ONCE = 1 << 21  # 8 MB in float32; more falls out of the cache


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, wanted: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        needed = any(ctx.needs_input_grad[:2])
        hidden_grad = torch.zeros_like(hidden) if needed else None
        weight_grad = torch.zeros_like(weight) if needed else None
        loss, nll = hidden.new_zeros((), dtype=torch.float64), hidden.new_zeros((), dtype=torch.float64)
        size = max(1, _LOGITS_AT_ONCE // len(weight))
        buffer = hidden.new_empty(min(size, len(hidden)), len(weight))
        for start in range(0, len(hidden), size):
            rows, ids = hidden[start : start + size], wanted[start : start + size, None]
            logits = torch.mm(rows, weight.T, out=buffer[: len(rows)])
            gold, mean = logits.gather(1, ids), logits.mean(dim=1, keepdim=True)
            # One pass of exp in place: probabilities take the place of the logits.
            highest = logits.amax(dim=1, keepdim=True)
            total = logits.sub_(highest).exp_().sum(dim=1, keepdim=True)
            normaliser = highest + total.log()
            row_nll = (normaliser - gold).sum()
            nll += row_nll
            loss += (1 - smoothing) * row_nll + smoothing * (
                normaliser - mean
            ).sum()  # mean NLL of all entries
            if hidden_grad is not None and weight_grad is not None:
                grad = logits.div_(total).sub_(smoothing / len(weight))
                grad.scatter_add_(1, ids, grad.new_full(ids.shape, smoothing - 1))
                torch.mm(grad, weight, out=hidden_grad[start : start + size])
                weight_grad.addmm_(grad.T, rows)
        ctx.save_for_backward(hidden_grad, weight_grad)
        ctx.mark_non_differentiable(nll)
        return loss.to(hidden.dtype), nll.to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None]:
        hidden_grad, weight_grad = ctx.saved_tensors
        return hidden_grad * scale, weight_grad * scale, None, None


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, wanted: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """Sums over rows of (1 - eps) * NLL + eps / V * (NLL of every entry), and of the NLL alone (no gradient).

    hidden: (rows, width); weight: (vocabulary, width); wanted: (rows,) ids.
    """
    loss, nll = _LinearCrossEntropy.apply(hidden, weight, wanted, smoothing)  # type: ignore[no-untyped-call]
    return loss, nll
