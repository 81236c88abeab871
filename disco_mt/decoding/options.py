"""Which inference algorithms there are, which model each fits, and the one place that calls them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from torch import Tensor

from disco_mt.core.errors import UserError
from disco_mt.core.settings import at_least, one_of
from disco_mt.decoding.mask_predict import mask_predict
from disco_mt.decoding.results import Hypothesis, OnPass
from disco_mt.nn.base import TranslationModel
from disco_mt.pins.pinned import Pinned
from disco_mt.systems.autoregressive.decoding import beam_search
from disco_mt.systems.disco.autoregressive import read_autoregressively
from disco_mt.systems.disco.easy_first import easy_first
from disco_mt.systems.disco.orders import JOINT, RULES, by_rule

Settle = Literal["", "winner", "all"]
Read = Literal["", "left-to-right", "both-ways"]


@dataclass(frozen=True)
class DecodingOptions:
    """How to decode. What does not concern a strategy is not read by it."""

    strategy: str = ""
    """Inference algorithm; empty: the default of the model's kind. Several orders of refinement, joined
    with +, go side by side (easy-first+left-to-right): more candidates, for rescoring."""
    iterations: int = 10
    """T: the most passes of easy-first, the number of passes of mask-predict."""
    length_beam: int = 5
    """K: how many lengths are tried."""
    beam: int = 5
    """Beam size of beam search (autoregressive models)."""
    length_penalty: float | None = None
    """alpha: beam search, and the choice among length candidates, divide log P by length to this power. The
    paper has 1 for the latter, the mean, which likes short ones. None: the model's own, or else 1."""
    length_weight: float | None = None
    """Weight of log P(N | X) where a DisCo model's candidates are read left to right: strategy
    autoregressive, and rescoring by a DisCo model. None: the model's own for rescoring, or else 0."""
    settle: Settle = ""
    """When refinement ends, T passes apart: winner, once the best candidate stays as it is (the paper's
    Algorithm 1), or all, once every candidate does, for rescoring, which may prefer another one. Empty: the
    model's own for its own rescoring, or else winner."""
    read: Read = ""
    """How a DisCo model reads candidates that it is to rank: left-to-right, or both-ways, left to right and
    right to left. Empty: the model's own for its own rescoring, or else left-to-right."""

    def __post_init__(self) -> None:
        one_of("settle", self.settle, get_args(Settle))
        one_of("read", self.read, get_args(Read))
        at_least("iterations", self.iterations, 1)
        at_least("length_beam", self.length_beam, 1)
        at_least("beam", self.beam, 1)
        at_least("length_penalty", self.alpha, 0.0)

    @property
    def alpha(self) -> float:
        """The length penalty."""
        return 1.0 if self.length_penalty is None else self.length_penalty

    @property
    def both_ways(self) -> bool:
        """Are candidates read from right to left, too?"""
        return self.read == "both-ways"

    @property
    def settle_all(self) -> bool:
        """Must every candidate have come to rest?"""
        return self.settle == "all"

    @property
    def weight(self) -> float:
        """Of the length."""
        return 0.0 if self.length_weight is None else self.length_weight


@dataclass(frozen=True)
class Wishes:
    """What one call asks for beside the options."""

    trace: bool = False
    pinned: Pinned | None = None
    on_pass: OnPass[int] | None = None


Decode = Callable[[Any, Tensor, DecodingOptions, Wishes], list[Hypothesis[int]]]
"""(model of the kind, source, options, wishes) -> one hypothesis a sentence."""


def _easy_first(model: Any, x: Tensor, o: DecodingOptions, w: Wishes) -> list[Hypothesis[int]]:
    given = o.iterations, o.length_beam, w.trace, w.pinned, w.on_pass, o.alpha, o.settle_all
    return easy_first(model, x, *given)


def _mask_predict(model: Any, x: Tensor, o: DecodingOptions, w: Wishes) -> list[Hypothesis[int]]:
    return mask_predict(model, x, o.iterations, o.length_beam, w.trace, w.pinned, w.on_pass, o.alpha)


def _by_rule(rule: str) -> Decode:
    return lambda model, x, o, w: by_rule(
        model, x, rule, o.iterations, o.length_beam, w.trace, w.pinned, w.on_pass, o.alpha, o.settle_all
    )


STRATEGIES: dict[str, dict[str, Decode]] = {
    "disco": {
        "easy-first": _easy_first,
        "mask-predict": _mask_predict,
        "left-to-right": _by_rule("left-to-right"),
        "right-to-left": _by_rule("right-to-left"),
        "all-but-itself": _by_rule("all-but-itself"),
        "autoregressive": lambda model, x, o, _: read_autoregressively(model, x, o.length_beam, o.weight),
    },
    "cmlm": {"mask-predict": _mask_predict},
    "autoregressive": {
        "beam": lambda model, x, o, _: beam_search(model, x, o.beam, o.alpha),
        "greedy": lambda model, x, o, _: beam_search(model, x, 1, o.alpha),
    },
}
"""Strategies by kind of model: a line each; the first is the kind's default."""
PINNABLE = ("easy-first", "mask-predict", "left-to-right", "right-to-left", "all-but-itself")
"""Those that can translate around pinned words, which all others observe; and orders side by side."""


def strategy_for(kind: str, wanted: str) -> str:
    """The strategy to use, or a refusal that lists those that fit."""
    fitting = STRATEGIES[kind]
    if not wanted:
        return next(iter(fitting))
    if JOINT in wanted:
        return _joined(kind, wanted)
    if wanted not in fitting:
        every = {name for names in STRATEGIES.values() for name in names}
        problem = f"does not fit a model of kind {kind}" if wanted in every else "is not known"
        raise UserError(f"strategy {wanted!r} {problem}; for {kind} there are: {', '.join(fitting)}")
    return wanted


def _joined(kind: str, wanted: str) -> str:
    """Orders side by side, if they are orders of this kind and no two the same."""
    orders = wanted.split(JOINT)
    if kind == "disco" and set(orders) <= set(RULES) and len(set(orders)) == len(orders):
        return wanted
    listed = ", ".join(RULES)
    raise UserError(
        f"strategy {wanted!r} does not fit a model of kind {kind}: only orders of disco models go side by "
        f"side, each once; they are: {listed}"
    )


def check_pinnable(kind: str, strategy: str) -> None:
    """Refuse pins where words are written one after the other."""
    chosen = strategy_for(kind, strategy)
    if chosen not in PINNABLE and JOINT not in chosen:
        raise UserError(
            f"words cannot be pinned with strategy {chosen!r} of a model of kind {kind}; "
            f"pins work with {', '.join(PINNABLE)} of disco models and mask-predict of cmlm models"
        )


def decode(
    model: TranslationModel,
    source: Tensor,
    options: DecodingOptions,
    trace: bool = False,
    pinned: Pinned | None = None,
    on_pass: OnPass[int] | None = None,
) -> list[Hypothesis[int]]:
    """Translate a batch of sentences. source: (batch, src), EOS at the end of each."""
    kind = model.config.kind
    strategy = strategy_for(kind, options.strategy)
    if pinned is not None:
        check_pinnable(kind, strategy)
    run = _by_rule(strategy) if JOINT in strategy else STRATEGIES[kind][strategy]
    return run(model, source, options, Wishes(trace, pinned, on_pass))
