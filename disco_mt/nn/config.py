"""The configuration of a model; the defaults are the paper's base size."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, get_args, get_type_hints

from disco_mt.core.errors import UserError
from disco_mt.core.settings import at_least, one_of

LENGTHS = ("max_source", "max_target", "length_classes")  # in tokens; 0 in a recipe: as the data need


@dataclass(frozen=True)
class Stack:
    """The encoder or decoder stack of the transformer."""

    layers: int = 6
    heads: int = 8
    hidden: int = 2048
    """Width of the feed-forward blocks."""

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "hidden"):
            at_least(f"stack.{name}", getattr(self, name), 1)


@dataclass(frozen=True)
class Length:
    """How the length of the translation is predicted; the default is the paper's predictor."""

    predictor: Literal["slot", "pooled"] = "slot"
    """slot: a slot in front of the source words, as in the paper. pooled: a small network on the mean of the
    encoder's output, for converted models, whose encoder must not change; it needs the prior."""
    prior: bool = False
    """Start from the length that is expected given the source length; the network learns a correction."""
    slope: float = 0.0
    """The expected length is slope * source + offset, in tokens with EOS. Fitted to the training data when
    training starts, like the two numbers below."""
    offset: float = 0.0
    spread: float = 0.0
    """The prior decays exponentially on both sides, over spread + spread_slope * source tokens."""
    spread_slope: float = 0.0

    def __post_init__(self) -> None:
        one_of("model.length.predictor", self.predictor, ("slot", "pooled"))
        for name in ("spread", "spread_slope"):
            at_least(f"model.length.{name}", getattr(self, name), 0)
        if self.predictor == "pooled" and not self.prior:
            raise UserError(
                "model.length.predictor 'pooled' predicts a difference from the prior; set model.length.prior"
            )

    @property
    def fitted(self) -> bool:
        """Have the parameters of the prior been fitted?"""
        return self.spread + self.spread_slope > 0


@dataclass(frozen=True)
class ModelConfig:
    """A translation model; the defaults are the paper's base model."""

    kind: str = "disco"
    """The system: disco, cmlm (conditional masked language model), autoregressive; see systems/."""
    width: int = 512
    """Model dimensions."""
    encoder: Stack = field(default_factory=Stack)
    decoder: Stack = field(default_factory=Stack)
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    norm: Literal["post", "pre"] = "post"
    """LayerNorm after each block (the paper) or before it."""
    norm_epsilon: float = 1e-12
    activation: Literal["gelu", "relu", "silu"] = "gelu"
    positions: Literal["learned", "sinusoidal", "marian"] = "learned"
    """learned; sinusoidal, scaled like the embeddings; or Marian's sinusoids of amplitude 1."""
    scale_embeddings: bool = False
    """Multiply word embeddings by the square root of the width, as Marian and Vaswani et al. do."""
    output_bias: bool = False
    """Add a bias to the logits, as Marian does."""
    tying: Literal["all", "decoder", "none"] = "all"
    """Shared embedding tables: encoder, decoder and output (joint vocabulary); decoder and output; none."""
    contextless: bool = False
    """Autoregressive only: keys and values directly from the embeddings, as in DisCo."""
    start_token: bool = False
    """DisCo only: the start token is a key that every position sees, like EOS. As in the input of an
    autoregressive decoder it comes first, so the key of word n has position n + 1."""
    query_word: bool = False
    """DisCo only: queries start from their position plus one learned vector."""
    attention_init: Literal["normal", "xavier"] = "normal"
    """Projections of queries, keys and values: N(0, 0.02) as in the paper, or Xavier-uniform over the packed
    matrix as in the authors' code, which learns faster at first in narrow models."""
    max_source: int = 1024
    """Longest source in tokens, with EOS; 0 (in a recipe): as the data need."""
    max_target: int = 1024
    """Longest target in tokens, with EOS; 0 (in a recipe): as the data need."""
    length: Length = field(default_factory=Length)
    length_classes: int = 1024
    """The length predictor chooses among 2 .. length_classes - 1 tokens, with EOS; 0 (in a recipe): as the
    data need."""
    source_vocabulary: int = 32000
    target_vocabulary: int = 32000

    def __post_init__(self) -> None:
        hints = get_type_hints(ModelConfig)
        for name in ("norm", "activation", "positions", "tying", "attention_init"):
            one_of(f"model.{name}", getattr(self, name), get_args(hints[name]))
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"model.{name} must be at least 0 and below 1, got {getattr(self, name)}")
        for name in ("width", "source_vocabulary", "target_vocabulary"):
            at_least(f"model.{name}", getattr(self, name), 1)
        for name in LENGTHS:
            if getattr(self, name) != 0:
                at_least(f"model.{name}", getattr(self, name), 3)
        if not 0 < self.norm_epsilon < 1:
            raise UserError(f"model.norm_epsilon must be above 0 and below 1, got {self.norm_epsilon}")
        for side in (self.encoder, self.decoder):
            if self.width % side.heads:
                raise UserError(
                    f"model.width must be a multiple of the heads, got width {self.width}, heads {side.heads}"
                )
        if self.tying == "all" and self.source_vocabulary != self.target_vocabulary:
            raise UserError(
                "model.tying 'all' needs a joint vocabulary, but the source has "
                f"{self.source_vocabulary} entries and the target {self.target_vocabulary}; use 'decoder'"
            )

    @property
    def embedding_scale(self) -> float:
        return math.sqrt(self.width) if self.scale_embeddings else 1.0

    @property
    def longest_source(self) -> int:
        """In words, without EOS."""
        return self.max_source - 1

    @property
    def longest_target(self) -> int:
        """In words, without EOS."""
        return min(self.max_target, self.length_classes - 1) - 1
