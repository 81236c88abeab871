"""What a model is: one frozen dataclass, the paper's base size by default."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args, get_type_hints

from disco_mt.errors import UserError
from disco_mt.settings import at_least, one_of

Kind = Literal["disco", "cmlm", "autoregressive"]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True)
class Stack:
    """One side of the transformer."""

    layers: int = 6
    heads: int = 8
    hidden: int = 2048
    """Width inside the feed-forward blocks."""

    def __post_init__(self) -> None:
        for name in ("layers", "heads", "hidden"):
            at_least(f"stack.{name}", getattr(self, name), 1)


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and choices of a translation model; the defaults are the paper's base model."""

    kind: Kind = "disco"
    """disco, cmlm (conditional masked language model) or autoregressive."""
    width: int = 512
    """Model dimensions."""
    encoder: Stack = field(default_factory=Stack)
    decoder: Stack = field(default_factory=Stack)
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    norm: Literal["post", "pre"] = "post"
    """LayerNorm after each block (the paper) or before it."""
    activation: Literal["gelu", "relu"] = "gelu"
    positions: Literal["learned", "sinusoidal"] = "learned"
    tying: Literal["all", "decoder", "none"] = "all"
    """Word tables that are one: encoder, decoder and output (joint vocabulary); decoder and output; none."""
    contextless: bool = False
    """Autoregressive only: keys and values straight from the embeddings, as DisCo has them."""
    attention_init: Literal["normal", "xavier"] = "normal"
    """Projections of queries, keys and values: N(0, 0.02) as the paper says, or Xavier-uniform over the
    packed matrix, as the authors' code has it; it starts faster in narrow models."""
    max_source: int = 1024
    """Longest source in tokens, EOS included."""
    max_target: int = 1024
    """Longest target in tokens, EOS included."""
    length_classes: int = 1024
    """The length predictor chooses among 2 .. length_classes - 1 tokens, EOS included."""
    source_vocabulary: int = 32000
    target_vocabulary: int = 32000

    def __post_init__(self) -> None:
        one_of("model.kind", self.kind, KINDS)
        hints = get_type_hints(ModelConfig)
        for name in ("norm", "activation", "positions", "tying", "attention_init"):
            one_of(f"model.{name}", getattr(self, name), get_args(hints[name]))
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"model.{name} must be at least 0 and below 1, got {getattr(self, name)}")
        for name in ("width", "source_vocabulary", "target_vocabulary"):
            at_least(f"model.{name}", getattr(self, name), 1)
        for name in ("max_source", "max_target", "length_classes"):
            at_least(f"model.{name}", getattr(self, name), 3)
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
        if self.contextless and self.kind != "autoregressive":
            raise UserError(
                f"model.contextless is for autoregressive models, not {self.kind}; disco always is"
            )

    @property
    def longest_target(self) -> int:
        """The most words (without EOS) that a length candidate may have."""
        return min(self.max_target, self.length_classes - 1) - 1
