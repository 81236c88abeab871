"""The DisCo transformer (Section 2): every position is predicted from its own context, all in one pass."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from disco_mt.core.special_tokens import BOS
from disco_mt.nn.base import ParallelModel
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.encoder import Encoded


class DisCo(ParallelModel):
    """Queries start from positions only; keys and values are contextless in every layer.

    If keys came from the layer below, two positions that see each other would leak their own words to
    themselves (the paper's [A, B] cycle). So k_n, v_n = Proj(w_n + p_n) in every layer, and any visibility is
    safe.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.query_word = nn.Parameter(torch.empty(config.width)) if config.query_word else None

    def decode(self, tokens: Tensor, visible: Tensor, encoded: Encoded) -> Tensor:
        """tokens: (batch, tgt); visible: (batch, tgt, tgt), see context.py -> (batch, tgt, width).

        tokens[n] influences only rows that may see n, so not its own row unless visible[n, n] is True.
        """
        embedded = self.dropout(self.embed(self._with_start(tokens)))  # w_n + p_n
        if self.config.start_token:
            visible = F.pad(visible, (1, 0), value=True)
        queries = self.queries(tokens.shape[1])
        h = self.dropout(queries.expand(len(tokens), -1, -1))  # q_n starts from p_n only
        for layer, source in zip(self.decoder_layers, encoded.cross, strict=True):
            h = layer(h, layer.contextless_keys(embedded), visible, source, encoded.visible)
        hidden: Tensor = self.norm(h)
        return hidden

    def queries(self, length: int, start: int = 0) -> Tensor:
        """The initial queries of `length` positions from `start` on: (length, width)."""
        positions: Tensor = self.positions(length, start)
        return positions if self.query_word is None else positions + self.query_word

    def _with_start(self, tokens: Tensor) -> Tensor:
        """Tokens with the start token in front, if the model has one."""
        if not self.config.start_token:
            return tokens
        return torch.cat([torch.full_like(tokens[:, :1], BOS), tokens], dim=1)
