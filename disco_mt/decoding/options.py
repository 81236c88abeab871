"""How to decode (`DecodingOptions`), what belongs to one call (`DecodeRequest`), a model's own defaults.

Options are created at the edge (command line, HTTP, Python), merged once with the model's own defaults
(`DecodingDefaults.fill`, called by Translator), and passed on as one object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from disco_mt.core.errors import UserError
from disco_mt.core.settings import at_least, from_dict, one_of
from disco_mt.decoding.results import OnPass

Effort = Literal["", "fast", "normal", "high"]
Rerank = Literal["none", "self"]
BATCH_TOKENS = 2048  # source tokens per batch, with padding
FAST_LENGTHS = 2  # length candidates with effort "fast"
HIGH_ORDERS = ("easy-first", "left-to-right", "right-to-left")
"""The orders in which effort "high" decodes, in parallel."""


@dataclass(frozen=True)
class DecodingOptions:
    """How to decode. Each strategy uses only some of the options (`Decoder.options` lists them)."""

    strategy: str = ""
    """Inference algorithm; empty: the default of the model's system."""
    effort: Effort = ""
    """fast: two lengths, no reranking. normal: the lengths and the reranking that the model was tuned with.
    high: three orders of refinement, until every candidate has converged, reranked in both directions. Empty:
    the model's default, which is normal unless its config says otherwise."""
    iterations: int = 10
    """T: the maximum number of passes of easy-first, the exact number of mask-predict."""
    length_beam: int = 5
    """K: the number of length candidates."""
    beam: int = 5
    """Beam size of beam search (autoregressive models)."""
    length_penalty: float | None = None
    """alpha: log P is divided by length ** alpha, in beam search and to compare length candidates. The paper
    uses 1, the mean, which favours short candidates. None: the model's default, else 1."""
    length_weight: float | None = None
    """Weight of log P(length | source) where a DisCo model scores candidates left to right: in reranking and
    in strategy autoregressive. None: the model's default in reranking, else 0."""

    def __post_init__(self) -> None:
        one_of("effort", self.effort, get_args(Effort))
        at_least("iterations", self.iterations, 1)
        at_least("length_beam", self.length_beam, 1)
        at_least("beam", self.beam, 1)
        at_least("length_penalty", self.alpha, 0.0)

    @property
    def alpha(self) -> float:
        """The length penalty, 1 by default."""
        return 1.0 if self.length_penalty is None else self.length_penalty

    @property
    def weight(self) -> float:
        """The length weight, 0 by default."""
        return 0.0 if self.length_weight is None else self.length_weight

    @property
    def orders(self) -> tuple[str, ...]:
        """The orders of refinement; every length candidate is decoded once in each."""
        return HIGH_ORDERS if self.effort == "high" else (self.strategy,)

    @property
    def until_all_converge(self) -> bool:
        """Refine until every candidate has converged, not only the best one as in Algorithm 1?"""
        return self.effort == "high"

    @property
    def both_directions(self) -> bool:
        """Does a reranker also score candidates right to left?"""
        return self.effort == "high"


@dataclass(frozen=True)
class DecodeRequest:
    """What belongs to one call, besides the options."""

    pins: Any = None
    """Words that must be in the output; None: no pins. Translator.translate takes one list of `Pin` per text,
    translate_ids and engines one tuple of `TokenPin` per sentence, a decoder the `Pinned` of its batch."""
    trace: bool = False
    """Record every pass. Sentences are then decoded one at a time."""
    on_pass: OnPass[Any] | None = None
    """Called with every pass as it happens. Sentences are then decoded one at a time."""
    progress: Callable[[int], None] | None = None
    """Called with the number of sentences finished since the last call."""
    batch_tokens: int = BATCH_TOKENS
    """Source tokens per batch, with padding; 1: one sentence at a time."""
    score_candidates: bool = False
    """Set by Translator: an engine may score the candidates itself, for reranking by the same model."""

    def __post_init__(self) -> None:
        at_least("batch_tokens", self.batch_tokens, 1)

    @property
    def watched(self) -> bool:
        """Is every pass recorded or reported?"""
        return self.trace or self.on_pass is not None


@dataclass(frozen=True)
class DecodingDefaults:
    """The model's own defaults, tuned on dev: `extra.decoding` in its config.json."""

    length_penalty: float | None = None
    length_weight: float | None = None
    rerank: Rerank = "none"
    """self: the model reranks its own candidates."""
    effort: Effort = ""
    """With a reranker; without one it is "normal"."""

    def __post_init__(self) -> None:
        one_of("rerank", self.rerank, get_args(Rerank))
        DecodingOptions(
            effort=self.effort, length_penalty=self.length_penalty, length_weight=self.length_weight
        )

    def fill(self, options: DecodingOptions, reranked: bool) -> DecodingOptions:
        """Options with the model's defaults where the user has set none."""
        effort = options.effort or (self.effort if reranked else "") or "normal"
        penalty, weight = options.length_penalty, options.length_weight
        return replace(
            options,
            effort=effort,
            length_beam=min(options.length_beam, FAST_LENGTHS) if effort == "fast" else options.length_beam,
            length_penalty=self.length_penalty if penalty is None else penalty,
            length_weight=self.length_weight if weight is None else weight,
        )


def read_defaults(table: Any, where: str) -> DecodingDefaults:
    """Parse `extra.decoding` of a config.json of any release.

    Release 0.1 wrote `rescore_with`, and `settle` and `read` for what is now effort "high".
    """
    if not isinstance(table, dict):
        raise UserError(f"{where} must be a table, got {table!r}")
    kept = {key: value for key, value in table.items() if key not in ("rescore_with", "settle", "read")}
    if "rescore_with" in table:
        kept["rerank"] = table["rescore_with"]
    try:
        one_of("settle", table.get("settle", ""), ("", "winner", "all"))
        one_of("read", table.get("read", ""), ("", "left-to-right", "both-ways"))
        if table.get("settle") == "all" or table.get("read") == "both-ways":
            kept["effort"] = "high"
        return from_dict(DecodingDefaults, kept, where)
    except UserError as error:
        message = str(error)
        raise UserError(message if message.startswith(where) else f"{where}: {message}") from None
