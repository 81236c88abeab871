"""What a decoder returns: the words, how sure it was, and on request how it got there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

Token = TypeVar("Token", int, str)  # ids inside the decoders, strings once translator.py has named them


@dataclass(frozen=True)
class CandidatePass(Generic[Token]):
    """One length candidate after one pass. All sequences have one entry a word (EOS is left out)."""

    tokens: tuple[Token, ...]
    probabilities: tuple[float, ...]
    observed: tuple[tuple[int, ...], ...]  # observed[n]: positions whose word position n saw (EOS always)
    predicted: tuple[bool, ...]  # False where mask-predict kept a word (and its probability)
    score: float  # mean log probability: what the length beam compares


@dataclass(frozen=True)
class Trace(Generic[Token]):
    """Every pass of every candidate."""

    strategy: str
    lengths: tuple[int, ...]  # words in each candidate (without EOS), likeliest length first
    length_log_probabilities: tuple[float, ...]
    passes: tuple[tuple[CandidatePass[Token], ...], ...]  # passes[t][k]
    winners: tuple[int, ...]  # winners[t]: the best candidate of pass t


@dataclass(frozen=True)
class Hypothesis(Generic[Token]):
    """One finished sentence as the decoders know it."""

    tokens: tuple[Token, ...]
    probabilities: tuple[float, ...]
    score: float
    steps: int  # sequential decoder passes, the paper's "Step"
    trace: Trace[Token] | None = None
    candidates: tuple[tuple[Token, ...], ...] = field(default=(), kw_only=True)
    """The last state of every length candidate, for rescoring; likeliest length first."""


@dataclass(frozen=True)
class Translation(Hypothesis[str]):
    """One finished text as a person wants it."""

    text: str = ""
    pieces: tuple[str, ...] = ()  # the tokens as they read, each with the space before it
    parts: tuple[Translation, ...] = ()  # one a sentence, where the text was split
    refused: str = ""  # why there is no translation
