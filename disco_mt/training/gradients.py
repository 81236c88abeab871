"""The gradient of one update: sums over its batches, then one division by the words they come from.

So every word of an update weighs the same however it is cut into batches, and an objective may say only
afterwards how many words it predicted (CMLM).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from disco_mt.data.batches import collate
from disco_mt.data.dataset import Split
from disco_mt.keyed import mix
from disco_mt.models.base import TranslationModel
from disco_mt.objectives.losses import Objective
from disco_mt.training.updates import Update


@dataclass(frozen=True)
class Sums:
    """Losses of an update by name ("loss" is what is minimised), not yet divided by `words`."""

    losses: dict[str, float]
    words: int


def accumulate(
    model: TranslationModel, objective: Objective, split: Split, update: Update, seed: int, step: int
) -> Sums:
    """Add the gradients of all batches of this process; dropout is keyed, so there is no state to keep.

    The key of a batch is its place in the update, not its process: any number of processes draws the same.
    """
    device = str(next(model.parameters()).device)
    sums: dict[str, Tensor] = {}
    words = 0
    for place, indices in update.batches:
        torch.manual_seed(mix(seed, step, place))
        losses = objective(model, collate(split, indices).to(device), mix(seed, step))
        losses.total.backward()  # type: ignore[no-untyped-call]
        for name, value in {"loss": losses.total.detach(), **losses.parts}.items():
            sums[name] = sums[name] + value if name in sums else value
        words += losses.words
    return Sums({name: float(value) for name, value in sums.items()}, words)


def normalise(parameters: Iterable[nn.Parameter], words: int, clip_norm: float) -> float:
    """Divide the summed gradients by `words` and clip them together; returns the norm before clipping.

    A norm that is not finite is returned as it is, and the gradients are left alone.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = float(get_total_norm(gradients)) / max(1, words)
    if math.isfinite(norm):
        scale = min(1.0, clip_norm / (norm + 1e-6)) / max(1, words)
        torch._foreach_mul_(gradients, scale)
    return norm
