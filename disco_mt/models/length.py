"""How long will the translation be? A slot in front of the source looks at all of it and answers."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LengthPredictor(nn.Module):
    """One table does both: its row 0 is the slot's input vector, and its rows score the lengths (tied).

    A class is a number of target tokens, EOS included; class 0 cannot be.
    """

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, width))

    def slot(self, batch: int) -> Tensor:
        """What is put in front of the source words, without a position: (batch, 1, width)."""
        return self.weight[0].expand(batch, 1, -1)

    def log_probs(self, slot: Tensor) -> Tensor:
        """slot: (batch, width), as the encoder left it -> (batch, classes)."""
        scores = slot @ self.weight.T
        impossible = torch.arange(scores.shape[1], device=scores.device) == 0
        kind = torch.promote_types(scores.dtype, torch.float32)  # autocast may have made it half
        return scores.masked_fill(impossible, -torch.inf).log_softmax(dim=1, dtype=kind)
