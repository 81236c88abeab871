"""What a decoder returns: words, probabilities and, on request, a trace of all passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Token = TypeVar("Token", int, str)  # ids in decoders, strings in what Translator returns


@dataclass(frozen=True)
class CandidateScore:
    """A reranker's score of one candidate, before the length is weighted."""

    words: tuple[float, ...]  # log P(Y_n | Y_<n, X), or its mean with log P(Y_n | Y_>n, X)
    end: float  # log P(EOS | Y, X) of an autoregressive model, log P(N | X) of a DisCo model
    predicts_end: bool

    def mean(self, length_weight: float) -> float:
        """Mean log probability: over words and EOS, or (words + length_weight * log P(N | X)) / N."""
        if self.predicts_end:
            return (sum(self.words) + self.end) / (len(self.words) + 1)
        if not self.words:
            return float("-inf")  # a DisCo model never writes an empty sentence
        return (sum(self.words) + length_weight * self.end) / len(self.words)


@dataclass(frozen=True)
class CandidatePass(Generic[Token]):
    """One candidate after one pass: any number of words, one entry per word in every field (EOS left out)."""

    tokens: tuple[Token, ...]
    probabilities: tuple[float, ...]
    observed: tuple[tuple[int, ...], ...]  # observed[n]: positions whose word position n saw (EOS always)
    predicted: tuple[bool, ...]  # False where mask-predict kept a word (and its probability)
    score: float  # what the length beam compares: the mean log probability by default
    pinned: tuple[bool, ...] = ()  # True for pinned words; empty if there are none


@dataclass(frozen=True)
class Pass(Generic[Token]):
    """One pass over one sentence, reported as it happens."""

    strategy: str
    step: int  # from 1
    lengths: tuple[int, ...]  # as in Trace
    length_log_probabilities: tuple[float, ...]
    candidates: tuple[CandidatePass[Token], ...]  # one per length
    winner: int  # the best candidate of this pass
    sentence: int = 0  # index in the batch; in what Translator reports, in the text
    text: int = 0  # index of the text


OnPass = Callable[[Pass[Token]], None]
"""A callback for each pass; if it raises an error, decoding ends with that error."""


@dataclass(frozen=True)
class Trace(Generic[Token]):
    """Every pass of every candidate."""

    strategy: str
    lengths: tuple[int, ...]  # words of each candidate at first (without EOS), most likely length first
    length_log_probabilities: tuple[float, ...]
    passes: tuple[tuple[CandidatePass[Token], ...], ...]  # passes[t][k]
    winners: tuple[int, ...]  # winners[t]: the best candidate of pass t


@dataclass(frozen=True)
class Hypothesis(Generic[Token]):
    """One finished sentence, as decoders return it."""

    tokens: tuple[Token, ...]
    probabilities: tuple[float, ...]
    score: float
    steps: int  # sequential decoder passes, the paper's "Step", including those that place pins
    trace: Trace[Token] | None = None
    candidates: tuple[tuple[Token, ...], ...] = field(default=(), kw_only=True)
    """The final words of every length candidate, for reranking; most likely length first."""
    pinned: tuple[bool, ...] = field(default=(), kw_only=True)
    """True for pinned words (their probability is 1); empty if there are none."""
    candidate_pins: tuple[tuple[bool, ...], ...] = field(default=(), kw_only=True)
    """`pinned` of every length candidate."""
    candidate_scores: tuple[CandidateScore, ...] = field(default=(), kw_only=True)
    """The reranker's score of every length candidate, once they have been scored."""


@dataclass(frozen=True)
class Translation(Hypothesis[str]):
    """One finished text, as Translator returns it."""

    text: str = ""
    pieces: tuple[str, ...] = ()  # the tokens as text, each with the space before it
    parts: tuple[Translation, ...] = ()  # one per sentence, if the text was split
    refused: str = ""  # why there is no translation
    copied: tuple[str, ...] = ()  # parts of the source that the vocabulary lacks, copied into the text
