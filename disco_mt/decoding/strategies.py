"""Which inference algorithms there are, which model each fits, and the one place that calls them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from disco_mt.decoding.autoregressive_reading import read_autoregressively
from disco_mt.decoding.beam_search import beam_search
from disco_mt.decoding.easy_first import easy_first
from disco_mt.decoding.mask_predict import mask_predict
from disco_mt.decoding.other_orders import RULES, by_rule
from disco_mt.decoding.translation import Hypothesis
from disco_mt.errors import UserError
from disco_mt.models.autoregressive import Autoregressive
from disco_mt.models.base import TranslationModel
from disco_mt.models.cmlm import CMLM
from disco_mt.models.disco import DisCo
from disco_mt.settings import at_least

STRATEGIES: dict[str, tuple[str, ...]] = {
    "disco": (
        "easy-first",
        "mask-predict",
        "left-to-right",
        "right-to-left",
        "all-but-itself",
        "autoregressive",
    ),
    "cmlm": ("mask-predict",),
    "autoregressive": ("beam", "greedy"),
}
"""Strategies by kind of model; the first is the kind's default."""


@dataclass(frozen=True)
class DecodingOptions:
    """How to decode. What does not concern a strategy is not read by it."""

    strategy: str = ""
    """Inference algorithm; empty: the default of the model's kind."""
    iterations: int = 10
    """T: the most passes of easy-first, the number of passes of mask-predict."""
    length_beam: int = 5
    """K: how many lengths are tried."""
    beam: int = 5
    """Beam size of beam search (autoregressive models)."""
    length_penalty: float = 1.0
    """alpha: beam search divides log P by length to this power."""
    length_weight: float = 0.0
    """Weight of log P(N | X) where a DisCo model's candidates are read left to right: strategy
    autoregressive, and rescoring by a DisCo model."""

    def __post_init__(self) -> None:
        at_least("iterations", self.iterations, 1)
        at_least("length_beam", self.length_beam, 1)
        at_least("beam", self.beam, 1)
        at_least("length_penalty", self.length_penalty, 0.0)


def strategy_for(kind: str, wanted: str) -> str:
    """The strategy to use, or a refusal that lists those that fit."""
    fitting = STRATEGIES[kind]
    if not wanted:
        return fitting[0]
    if wanted not in fitting:
        every = {name for names in STRATEGIES.values() for name in names}
        problem = f"does not fit a model of kind {kind}" if wanted in every else "is not known"
        raise UserError(f"strategy {wanted!r} {problem}; for {kind} there are: {', '.join(fitting)}")
    return wanted


def decode(
    model: TranslationModel, source: Tensor, options: DecodingOptions, trace: bool = False
) -> list[Hypothesis[int]]:
    """Translate a batch of sentences. source: (batch, src), EOS at the end of each."""
    strategy = strategy_for(model.config.kind, options.strategy)
    match model, strategy:
        case DisCo(), "easy-first":
            return easy_first(model, source, options.iterations, options.length_beam, trace)
        case ((DisCo() | CMLM()), "mask-predict"):
            return mask_predict(model, source, options.iterations, options.length_beam, trace)
        case DisCo(), rule if rule in RULES:
            return by_rule(model, source, rule, options.iterations, options.length_beam, trace)
        case DisCo(), "autoregressive":
            return read_autoregressively(model, source, options.length_beam, options.length_weight)
        case Autoregressive(), "beam":
            return beam_search(model, source, options.beam, options.length_penalty)
        case Autoregressive(), "greedy":
            return beam_search(model, source, 1, options.length_penalty)
    raise AssertionError(f"STRATEGIES lists {strategy}, but nothing here runs it")
