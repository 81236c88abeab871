"""The gradient of one update: sums over its batches, then one division by the words they come from.

So every word of an update weighs the same however it is cut into batches and shared out among processes, and
an objective may say only afterwards how many words it predicted (CMLM).

Between processes the gradients go through torch's DistributedDataParallel rather than one all-reduce at the
end, because it sends them off while the backward pass of the last batch still runs. Two things it would do
otherwise: it averages, where this wants sums (so a hook of ours reduces), and it waits for a process that has
no batch (so such a process takes part with one sentence that weighs nothing).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import get_total_norm

from disco_mt.core.batch import Batch
from disco_mt.core.counter_rng import mix
from disco_mt.data.batches import Indices, collate
from disco_mt.data.dataset import Split
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.losses import Losses, Objective
from disco_mt.training.encoder_states import EncoderStates
from disco_mt.training.processes import ALONE, Processes
from disco_mt.training.speed import MixedPrecision
from disco_mt.training.updates import Update

# A batch for a process that has none: (place in the update, indices of pairs).
_ONE_SENTENCE: list[tuple[int, Indices]] = [(0, np.zeros(1, np.int32))]


@dataclass(frozen=True)
class Sums:
    """Losses of an update by name ("loss" is what is minimised), not yet divided by `words`."""

    losses: dict[str, float]
    words: int


class _Step(nn.Module):
    """Model and objective as one module with one forward pass: what DistributedDataParallel can wrap."""

    def __init__(self, model: TranslationModel, objective: Objective, precision: MixedPrecision) -> None:
        super().__init__()
        self.model, self.objective, self.precision = model, objective, precision
        model.loss_by_mkl = precision.by_mkl

    def forward(self, batch: Batch, key: int) -> Losses:
        with self.precision.computing():
            return self.objective(self.model, batch.to(self.precision.device), key)


class GradientAccumulator:
    """Makes the gradients of an update, together with the other processes."""

    def __init__(
        self,
        model: TranslationModel,
        objective: Objective,
        precision: str = "fp32",
        processes: Processes = ALONE,
        compiled: bool = False,
    ) -> None:
        mixed = MixedPrecision(precision, str(next(model.parameters()).device), compiled)
        step = _Step(model, objective, mixed)
        self.processes = processes
        self.states: EncoderStates | None = None  # of the encoder, where they are kept
        self.scaler = mixed.scaler()
        self.step: nn.Module = step if processes.world == 1 else _distributed(step)

    def accumulate(self, split: Split, update: Update, seed: int, step: int) -> Sums:
        """Add up the gradients of all batches of an update, of this and all other processes.

        Dropout is keyed, so there is no state to keep; the key of a batch is its place in the update, not
        its process: any number of processes draws the same.
        """
        sums: dict[str, Tensor] = {}
        words = 0
        share, weight = (update.batches, 1) if update.batches else (_ONE_SENTENCE, 0)
        for number, (place, indices) in enumerate(share, start=1):
            torch.manual_seed(mix(seed, step, place))
            with self._reducing(number == len(share)):
                losses: Losses = self.step(self._batch(split, indices), mix(seed, step))
                self.scaler.scale(weight * losses.total).backward()  # type: ignore[no-untyped-call]
            for name, value in {"loss": losses.total.detach(), **losses.parts}.items():
                sums[name] = sums.get(name, 0) + weight * value
            words += weight * losses.words
        return self._total({name: float(value) for name, value in sums.items()}, words)

    def _batch(self, split: Split, indices: Indices) -> Batch:
        batch = collate(split, indices)
        return batch if self.states is None else replace(batch, memory=self.states.batch(indices))

    def _reducing(self, last: bool) -> AbstractContextManager[None]:
        """Gradients travel once an update, in the backward pass of the last batch."""
        if isinstance(self.step, DistributedDataParallel) and not last:
            return self.step.no_sync()
        return nullcontext()

    def _total(self, losses: dict[str, float], words: int) -> Sums:
        *values, all_words = self.processes.total([*losses.values(), words])
        return Sums(dict(zip(losses, values, strict=True)), int(all_words))


def _distributed(step: _Step) -> DistributedDataParallel:
    with warnings.catch_warnings(action="ignore", category=FutureWarning):  # newer torch renames the option
        wrapped = DistributedDataParallel(step, broadcast_buffers=False)  # which are the same tables for all
    wrapped.register_comm_hook(None, lambda _, bucket: _summed(bucket))
    return wrapped


def _summed(bucket: Any) -> torch.futures.Future[Tensor]:
    """Sums, exactly; an average that is multiplied again would be rounded twice."""
    sent: torch.futures.Future[list[Tensor]] = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
    return sent.then(lambda done: done.value()[0])


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
