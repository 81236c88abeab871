"""What a decoder returns: the words, how sure it was, and on request how it got there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Token = TypeVar("Token", int, str)  # ids inside the decoders, strings once translator.py has named them


@dataclass(frozen=True)
class CandidateScore:
    """What a reranker says of one candidate, whatever the weight of the length."""

    words: tuple[float, ...]  # log P(Y_n | Y_<n, X), or its mean with log P(Y_n | Y_>n, X)
    end: float  # log P(EOS | Y, X) of an autoregressive model, log P(N | X) of a DisCo model
    predicts_end: bool

    def mean(self, length_weight: float) -> float:
        """Mean log probability: over words and EOS, or (words + length_weight * log P(N | X)) / N."""
        if self.predicts_end:
            return (sum(self.words) + self.end) / (len(self.words) + 1)
        if not self.words:
            return float("-inf")  # no DisCo model makes an empty sentence
        return (sum(self.words) + length_weight * self.end) / len(self.words)


@dataclass(frozen=True)
class CandidatePass(Generic[Token]):
    """One candidate after one pass: any number of words, one entry per word in every field (EOS left out)."""

    tokens: tuple[Token, ...]
    probabilities: tuple[float, ...]
    observed: tuple[tuple[int, ...], ...]  # observed[n]: positions whose word position n saw (EOS always)
    predicted: tuple[bool, ...]  # False where mask-predict kept a word (and its probability)
    score: float  # mean log probability: what the length beam compares (pins, other means: length_beam.py)
    pinned: tuple[bool, ...] = ()  # True where a word was given, not predicted; empty where none was


@dataclass(frozen=True)
class Pass(Generic[Token]):
    """One pass over one sentence, told as it happens."""

    strategy: str
    step: int  # from 1
    lengths: tuple[int, ...]  # as in Trace
    length_log_probabilities: tuple[float, ...]
    candidates: tuple[CandidatePass[Token], ...]  # one per length
    winner: int  # the best candidate of this pass
    sentence: int = 0  # which sentence: of the batch; once translator.py tells it, of the text
    text: int = 0  # which text, where several are translated


OnPass = Callable[[Pass[Token]], None]
"""What a caller may do with each pass; if it raises, decoding ends with that error."""


@dataclass(frozen=True)
class Trace(Generic[Token]):
    """Every pass of every candidate."""

    strategy: str
    lengths: tuple[int, ...]  # words of each candidate at first (without EOS), likeliest length first
    length_log_probabilities: tuple[float, ...]
    passes: tuple[tuple[CandidatePass[Token], ...], ...]  # passes[t][k]
    winners: tuple[int, ...]  # winners[t]: the best candidate of pass t


@dataclass(frozen=True)
class Hypothesis(Generic[Token]):
    """One finished sentence as the decoders know it."""

    tokens: tuple[Token, ...]
    probabilities: tuple[float, ...]
    score: float
    steps: int  # sequential decoder passes, the paper's "Step"; and what it took to place pins
    trace: Trace[Token] | None = None
    candidates: tuple[tuple[Token, ...], ...] = field(default=(), kw_only=True)
    """The last state of every length candidate, for reranking; likeliest length first."""
    pinned: tuple[bool, ...] = field(default=(), kw_only=True)
    """True where a word was given (its probability is 1); empty where none was."""
    candidate_pins: tuple[tuple[bool, ...], ...] = field(default=(), kw_only=True)
    """`pinned` of every length candidate."""
    candidate_scores: tuple[CandidateScore, ...] = field(default=(), kw_only=True)
    """The reranker's score of every length candidate, once they have been scored."""


@dataclass(frozen=True)
class Translation(Hypothesis[str]):
    """One finished text as a person wants it."""

    text: str = ""
    pieces: tuple[str, ...] = ()  # the tokens as they read, each with the space before it
    parts: tuple[Translation, ...] = ()  # one per sentence, where the text was split
    refused: str = ""  # why there is no translation
    copied: tuple[str, ...] = ()  # parts of the source that the model cannot read, copied into the text
