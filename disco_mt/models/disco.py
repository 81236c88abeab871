"""The DisCo transformer (Section 2): every position is predicted from its own context, in one pass."""

from __future__ import annotations

from torch import Tensor

from disco_mt.models.base import TranslationModel
from disco_mt.models.config import ModelConfig
from disco_mt.models.encoder import Encoded


class DisCo(TranslationModel):
    """Queries start from positions alone; keys and values are contextless in every layer.

    If keys saw the layer before, two positions that see each other would leak their own words to themselves
    (the paper's [A, B] cycle). So k_n, v_n = Proj(w_n + p_n) at every depth, and any visibility is safe.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, with_length=True)

    def decode(self, tokens: Tensor, visible: Tensor, encoded: Encoded) -> Tensor:
        """tokens: (batch, tgt); visible: (batch, tgt, tgt), see context.py -> (batch, tgt, width).

        tokens[n] influences only the rows that may see n; its own row never (unless `visible` says so).
        """
        embedded = self.dropout(self.embed(tokens))  # w_n + p_n
        h = self.dropout(self.positions(tokens.shape[1]).expand_as(embedded))  # q_n starts from p_n alone
        for layer, source in zip(self.decoder_layers, encoded.cross, strict=True):
            h = layer(h, layer.contextless_keys(embedded), visible, source, encoded.visible)
        hidden: Tensor = self.norm(h)
        return hidden
