"""Label-smoothed cross entropy from hidden states, without the full (tokens x vocabulary) matrix.

Rows are processed in chunks; the logits of a chunk give its loss and immediately its part of the gradients.
So memory is one chunk of logits, and the product is not computed again in the backward pass.

The gradient of a row's logits is softmax - (1 - eps) [gold] - eps / V. To touch the large matrix less often,
it holds e^logits instead of the softmax, the rows of the small factors are divided instead, and eps / V
becomes a sum of the other factor over the vocabulary or over the rows.

A teacher's distribution q can be mixed into the target: the gradient is then softmax - (1 - share) ((1 - eps)
[gold] + eps / V) - share q. q is also computed chunk by chunk, from the teacher's hidden states.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from disco_mt.core import mkl
from disco_mt.core.special_tokens import NUM_SPECIAL

_MAX_LOGITS = 1 << 21  # per chunk: 8 MB in float32, which fits into a processor's cache
_MAX_LOGITS_GPU = 1 << 27


class SoftTargets(NamedTuple):
    """A teacher's distribution at the same positions, over the same vocabulary."""

    hidden: Tensor  # (rows, width), the teacher's hidden states
    weight: Tensor  # (vocabulary, width), its output layer
    bias: Tensor | None  # (vocabulary,)
    share: float  # weight of the teacher's distribution in the target

    def probabilities(self, rows: slice, products: torch.dtype) -> Tensor:
        """Renormalised without special tokens such as EOS: (rows, vocabulary)."""
        logits = _at_least_float32(self.hidden[rows].to(products) @ self.weight.to(products).T)
        if self.bias is not None:
            logits += self.bias
        logits[:, :NUM_SPECIAL] = -torch.inf
        return logits.softmax(dim=1)


class OutputLayer(NamedTuple):
    """What turns hidden states into logits."""

    weight: Tensor  # (vocabulary, width)
    bias: Tensor | None = None  # (vocabulary,)
    mkl: bool = False
    """Multiply in bfloat16 and add up in float32, by MKL (core/mkl.py)?"""


class _How(NamedTuple):
    """How the loss is computed."""

    smoothing: float
    products: torch.dtype  # of the factors
    mkl: bool
    soft: SoftTargets | None


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, wanted: Tensor, how: _How
    ) -> tuple[Tensor, Tensor]:
        smoothing, products, soft = how.smoothing, how.products, how.soft
        hard = 1.0 if soft is None else 1 - soft.share
        rows_low, weight_low = hidden.to(products), weight.to(products)
        hidden, weight = _at_least_float32(hidden), _at_least_float32(weight)
        needed = any(ctx.needs_input_grad[:3])
        hidden_grad = torch.empty_like(hidden) if needed else None
        weight_grad = torch.zeros_like(weight) if needed else None
        bias_grad = torch.zeros_like(bias) if needed and bias is not None else None
        nll = hidden.new_zeros((), dtype=torch.float64)
        normalisers, teacher_logits = nll.clone(), nll.clone()
        size = max(1, _chunk_size(hidden) // len(weight))
        buffer = hidden.new_empty(min(size, len(hidden)), len(weight))
        for start in range(0, len(hidden), size):
            rows, ids = rows_low[start : start + size], wanted[start : start + size, None]
            logits = _product(rows, weight_low.T, buffer[: len(rows)], how.mkl)
            if bias is not None:
                logits += bias
            gold, highest = logits.gather(1, ids), logits.amax(dim=1, keepdim=True)
            likely = None
            if soft is not None:
                likely = soft.probabilities(slice(start, start + size), products)
                teacher_logits += torch.vdot(likely.flatten(), logits.flatten())
            # e^logits in place, the highest being 1: the softmax without its divisor.
            total = logits.sub_(highest).exp_().sum(dim=1, keepdim=True)
            normaliser = highest + total.log()
            normalisers += normaliser.sum()
            nll += (normaliser - gold).sum()
            if hidden_grad is not None and weight_grad is not None:
                logits.scatter_add_(1, ids, hard * (smoothing - 1) * total)
                if soft is not None and likely is not None:
                    logits.addcmul_(likely, total, value=-soft.share)
                grad, share = logits.to(rows.dtype), 1 / total
                _product(grad, weight_low, hidden_grad[start : start + size], how.mkl).mul_(share)
                _add_product(grad.T, (rows * share).to(rows.dtype), weight_grad, how.mkl)
                if bias_grad is not None:
                    bias_grad.addmv_(logits.T, share[:, 0])
        if hidden_grad is not None and weight_grad is not None:
            every = hard * smoothing / len(weight)
            hidden_grad -= every * weight.sum(dim=0)
            weight_grad -= every * hidden.sum(dim=0)
            if bias_grad is not None:
                bias_grad -= every * len(hidden)
        ctx.gradients = hidden_grad, weight_grad, bias_grad
        ctx.mark_non_differentiable(nll)
        # The mean NLL over the vocabulary only needs the mean logit, hidden . (mean weight).
        mean_logits = (hidden @ weight.mean(dim=0)).sum(dtype=torch.float64)
        if bias is not None:
            mean_logits = mean_logits + len(hidden) * bias.mean()
        loss = hard * ((1 - smoothing) * nll + smoothing * (normalisers - mean_logits))
        loss = loss + (1 - hard) * (normalisers - teacher_logits)
        return loss.to(hidden.dtype), nll.to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradients, ctx.gradients = ctx.gradients, None  # scaled in place, so only once
        scaled = (None if gradient is None else gradient.mul_(scale) for gradient in gradients)
        return *scaled, None, None


def linear_cross_entropy(
    hidden: Tensor, output: OutputLayer, wanted: Tensor, smoothing: float, soft: SoftTargets | None = None
) -> tuple[Tensor, Tensor]:
    """Sums over rows of (1 - eps) * NLL + eps / V * (NLL of every entry), and of the NLL alone (no gradient).

    hidden: (rows, width); wanted: (rows,) ids; soft: a share of the target that is a teacher's distribution,
    not the wanted word. Under autocast the products are in half precision, and all else in float32.
    """
    how = _How(smoothing, _product_type(hidden, output.mkl), output.mkl, soft)
    with torch.autocast(hidden.device.type, enabled=False):
        loss, nll = _LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
            hidden, output.weight, output.bias, wanted, how
        )
    return loss, nll


def _product_type(hidden: Tensor, by_mkl: bool) -> torch.dtype:
    """What autocast would use, if it is bfloat16. float16 has no room for gradients that are made before
    the loss is scaled: there the products are in float32."""
    kind = hidden.device.type
    if by_mkl and hidden.dtype == torch.float32:
        return torch.bfloat16
    if torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.bfloat16:
        return torch.bfloat16
    return torch.promote_types(hidden.dtype, torch.float32)


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _chunk_size(hidden: Tensor) -> int:
    return _MAX_LOGITS_GPU if hidden.device.type == "cuda" else _MAX_LOGITS


def _product(left: Tensor, right: Tensor, out: Tensor, by_mkl: bool) -> Tensor:
    """left @ right into `out`, whose type may be a wider one."""
    if left.dtype == out.dtype:
        return torch.mm(left, right, out=out)
    return mkl.product(left, right, out) if by_mkl else out.copy_(torch.mm(left, right))


def _add_product(left: Tensor, right: Tensor, total: Tensor, by_mkl: bool) -> Tensor:
    """total += left @ right."""
    if left.dtype == total.dtype:
        return total.addmm_(left, right)
    if by_mkl:
        return mkl.product(left, right, total, add=True)
    return total.add_(torch.mm(left, right))
