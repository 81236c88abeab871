"""The base of all systems: an encoder, decoder layers and an output layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import NUM_SPECIAL, PAD
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.dropout import Dropout
from disco_mt.nn.encoder import Encoded, Encoder, scaled
from disco_mt.nn.layers import DecoderLayer, Positions, final_norm
from disco_mt.nn.length import PooledLength

_MAX_LOGITS = 1 << 22  # per chunk of rows: 16 MB in float32


class BestWords(NamedTuple):
    """The most likely word of each row and its log probability."""

    ids: Tensor
    log_probs: Tensor


def join_best_words(chunks: Sequence[BestWords]) -> BestWords:
    return BestWords(
        torch.cat([chunk.ids for chunk in chunks]), torch.cat([chunk.log_probs for chunk in chunks])
    )


class TranslationModel(nn.Module):
    """The base class; a system adds its own `decode` (systems/*/model.py)."""

    loss_by_mkl = False  # set by training: does the loss multiply in bfloat16 with MKL (core/mkl.py)?

    def __init__(self, config: ModelConfig, with_length: bool) -> None:
        super().__init__()
        if config.length.prior and not with_length:
            raise UserError(
                f"model.length.prior is for models that predict a length, not for {config.kind} ones"
            )
        self.config = config
        self.encoder = Encoder(config, with_length)
        tied = config.tying == "all"
        words = self.encoder.words if tied else nn.Embedding(config.target_vocabulary, config.width)
        self.words = words
        self.positions = Positions(config.max_target + config.start_token, config)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder.layers))
        self.norm = final_norm(config)
        self.output = (
            words if config.tying != "none" else nn.Embedding(config.target_vocabulary, config.width)
        )
        bias = torch.empty(config.target_vocabulary) if config.output_bias else None
        self.output_bias = None if bias is None else nn.Parameter(bias)
        pooled = with_length and config.length.predictor == "pooled"
        self.length = PooledLength(config) if pooled else None
        self.frozen: tuple[str, ...] = ()
        self.predicted = 0  # positions that `best_words` has predicted so far

    def freeze(self, parts: Sequence[str]) -> None:
        """Exclude modules, by name, from training: no gradient, no dropout. All others are trained."""
        modules = dict(self.named_modules())
        self.requires_grad_(True)
        for part in parts:
            if part not in modules or not part:
                known = ", ".join(name for name, _ in self.named_children())
                raise UserError(
                    f"training.freeze names {part!r}, which a {self.config.kind} model does not have; its "
                    f"parts are {known}, and parts of these such as encoder.words or layers.0"
                )
            modules[part].requires_grad_(False)
        self.frozen = tuple(parts)
        self.train(self.training)

    def train(self, mode: bool = True) -> Self:
        """Like that of nn.Module, but frozen parts stay in evaluation mode."""
        super().train(mode)
        for part in self.frozen:
            self.get_submodule(part).eval()
        return self

    def encode(self, source: Tensor, memory: Tensor | None = None) -> Encoded:
        """source: (batch, src), EOS at the end of each sentence.

        memory: (batch, src, width), the encoder's output, if it is known already (a frozen encoder's).
        """
        if memory is None:
            memory, visible, length_log_probs = self.encoder(source)
        else:
            visible, length_log_probs = (source != PAD)[:, None], None
        if self.length is not None:
            length_log_probs = self.length.log_probs(memory, visible[:, 0])
        cross = tuple(layer.cross_attention.project(memory) for layer in self.decoder_layers)
        return Encoded(cross, visible, length_log_probs)

    @property
    def decoder_layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.layers if isinstance(layer, DecoderLayer)]

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """w_n + p_n: (batch, tgt, width)."""
        embedded: Tensor = scaled(self.words(tokens), self.config) + self.positions(tokens.shape[1], start)
        return embedded

    def embed_at(self, tokens: Tensor, places: Tensor) -> Tensor:
        """Tokens at arbitrary positions: (batch, n), (batch, n) -> (batch, n, width)."""
        embedded: Tensor = scaled(self.words(tokens), self.config) + self.positions.weight[places]
        return embedded

    def logits(self, hidden: Tensor) -> Tensor:
        """(rows, width) -> (rows, vocabulary)."""
        scores = hidden @ self.output.weight.T
        return scores if self.output_bias is None else scores + self.output_bias

    def best_words(self, hidden: Tensor, allowed: Tensor | None = None) -> BestWords:
        """Softmax over the whole vocabulary, argmax over words only. hidden: (rows, width).

        Rows are processed in chunks, so that the (rows, vocabulary) matrix of logits is never complete.
        allowed: (rows, vocabulary) bool, the words that each row may choose; default: all.
        """
        self.predicted += len(hidden)
        chunks = self._chunks(hidden)
        return join_best_words(
            [_best(self.logits(hidden[rows]), None if allowed is None else allowed[rows]) for rows in chunks]
        )

    def word_log_probs(self, hidden: Tensor, ids: Tensor) -> Tensor:
        """log P of given words: hidden (rows, width), ids (rows,) or (rows, words) -> the shape of ids."""
        chunks = [given_log_probs(self.logits(hidden[rows]), ids[rows]) for rows in self._chunks(hidden)]
        return torch.cat(chunks)

    def _chunks(self, hidden: Tensor) -> list[slice]:
        size = max(1, _MAX_LOGITS // self.config.target_vocabulary)
        return [slice(start, start + size) for start in range(0, max(1, len(hidden)), size)]

    def count_parameters(self) -> int:
        """Tied tables count once."""
        return sum(parameter.numel() for parameter in self.parameters())


class ParallelModel(TranslationModel):
    """Predicts the length first, then all words in parallel (DisCo, CMLM)."""

    sees_masks = False  # do queries attend to <mask> in mask-predict? Only in a CMLM

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, with_length=True)

    def decode(self, tokens: Tensor, visible: Tensor, encoded: Encoded) -> Tensor:
        """tokens: (batch, tgt); visible: (batch, tgt, tgt), see context.py -> hidden (batch, tgt, width)."""
        raise NotImplementedError

    def log_probs(self, tokens: Tensor, visible: Tensor, source: Tensor) -> Tensor:
        """log P of every word at every position under any visibility mask, for your own experiments.

        tokens: (batch, tgt) with EOS; visible: (batch, tgt, tgt) bool, visible[b, n, m]: may n see m?
        source: (batch, src) with EOS -> (batch, tgt, vocabulary).
        """
        return self.logits(self.decode(tokens, visible, self.encode(source))).log_softmax(dim=-1)


def _best(logits: Tensor, allowed: Tensor | None = None) -> BestWords:
    choice = logits if allowed is None else logits.masked_fill(~allowed, -torch.inf)
    best, ids = choice[:, NUM_SPECIAL:].max(dim=1)
    return BestWords(ids + NUM_SPECIAL, best - logits.logsumexp(dim=1))


def given_log_probs(logits: Tensor, ids: Tensor) -> Tensor:
    """log P of given words. logits: (rows, vocabulary); ids: (rows,) or (rows, words) -> the shape of ids."""
    wanted = ids if ids.dim() == 2 else ids[:, None]
    return (logits.gather(1, wanted) - logits.logsumexp(dim=1, keepdim=True)).reshape(ids.shape)


def initialise(model: TranslationModel, generator: torch.Generator) -> None:
    """Weights N(0, 0.02), biases 0, LayerNorm gamma 1, beta 0; a pooled predictor starts at its prior."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or name == "length.shift.weight":
            nn.init.zeros_(parameter)
        elif "norm" in name:
            nn.init.ones_(parameter)
        elif model.config.attention_init == "xavier" and _is_qkv(name):
            # Xavier-uniform of the packed (3 width, width) matrix, although it is stored in parts.
            bound = (6 / (4 * model.config.width)) ** 0.5
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        else:
            nn.init.normal_(parameter, std=0.02, generator=generator)


def _is_qkv(name: str) -> bool:
    return name.endswith(("query.weight", "key_value.weight"))
