"""The optimizer of a run and its learning rate: the paper's AdamW, or Muon for the matrices of the layers.

Muon (Jordan et al. 2024) is torch's. The momentum of a matrix has a few strong directions and many weak ones,
which AdamW hardly learns; Muon makes all its singular values (nearly) 1 before the step. Steps are scaled to
the size of AdamW's (Liu et al. 2025), so that both share one learning rate and one decay. It is not in the
paper, whose models have hundreds of thousands of updates; those of a desk have some thousand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from disco_mt.core.errors import UserError
from disco_mt.core.machine import avoid_broken_amx
from disco_mt.nn.base import TranslationModel
from disco_mt.training.options import TrainingOptions


class MuonAndAdamW(torch.optim.Optimizer):
    """Muon for some parameters and AdamW for the others, as one optimizer with one state."""

    def __init__(self, muon: torch.optim.Muon, adamw: torch.optim.AdamW) -> None:
        super().__init__([*muon.param_groups, *adamw.param_groups], {})  # the groups themselves, no copies
        self.parts = muon, adamw
        for part in self.parts:
            part.state = self.state

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of all parameters."""
        for part in self.parts:
            part.step()  # type: ignore[no-untyped-call]


def build_optimizer(model: TranslationModel, options: TrainingOptions) -> torch.optim.Optimizer:
    """Decay is decoupled from the gradient, and on all parameters."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise UserError("training.freeze leaves nothing to train; freeze fewer parts")
    if options.optimizer == "adamw":
        return _adamw(trained, options)
    in_layers = (each for layer in (*model.encoder.layers, *model.layers) for each in layer.parameters())
    matrices = [each for each in in_layers if each.dim() == 2 and each.requires_grad]
    if not matrices:
        raise UserError(
            "training.optimizer 'muon' is for the layers, but training.freeze has them all; use adamw"
        )
    avoid_broken_amx()  # Muon multiplies in bfloat16
    by_muon = {id(each) for each in matrices}
    others = [each for each in trained if id(each) not in by_muon]
    return MuonAndAdamW(_muon(matrices, options), _adamw(others, options))


def _muon(parameters: Iterable[nn.Parameter], options: TrainingOptions) -> torch.optim.Muon:
    rate, decay = options.learning_rate, options.weight_decay
    return torch.optim.Muon(parameters, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw")


def _adamw(parameters: Iterable[nn.Parameter], options: TrainingOptions) -> torch.optim.AdamW:
    """The fused one takes less than half the time."""
    return torch.optim.AdamW(
        parameters,
        lr=options.learning_rate,
        betas=(options.adam_beta1, options.adam_beta2),
        eps=options.adam_epsilon,
        weight_decay=options.weight_decay,
        fused=True,
    )


def learning_rate(step: int, options: TrainingOptions) -> float:
    """The rate of update `step` (the first is 1)."""
    peak, warmup = options.learning_rate, options.warmup_steps
    rate = peak * (step / warmup if step <= warmup else (warmup / step) ** 0.5)
    left = options.max_steps - step + 1
    return rate * min(1.0, left / options.cooldown_steps) if options.cooldown_steps else rate
