"""Which optimizer a run has: the paper's AdamW, or Muon for the matrices of the layers."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from disco_mt.core.errors import UserError
from disco_mt.nn.base import TranslationModel
from disco_mt.training.muon import Muon
from disco_mt.training.options import TrainingOptions


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
    theirs = {id(each) for each in matrices}
    return Muon(matrices, _adamw([each for each in trained if id(each) not in theirs], options))


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
