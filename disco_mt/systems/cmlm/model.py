"""The conditional masked language model (Ghazvininejad et al. 2019)."""

from __future__ import annotations

from torch import Tensor

from disco_mt.nn.base import ParallelModel
from disco_mt.nn.encoder import Encoded


class CMLM(ParallelModel):
    """Contextual keys and values: safe, because the input has `<mask>` in place of words to predict."""

    sees_masks = True

    def decode(self, tokens: Tensor, visible: Tensor, encoded: Encoded) -> Tensor:
        """tokens: (batch, tgt), masked words as MASK; visible: (batch, tgt, tgt) -> (batch, tgt, width)."""
        h = self.dropout(self.embed(tokens))
        for layer, source in zip(self.decoder_layers, encoded.cross, strict=True):
            h = layer(h, layer.contextual_keys(h), visible, source, encoded.visible)
        hidden: Tensor = self.norm(h)
        return hidden
