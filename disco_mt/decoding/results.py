"""What a decoder returns: the words, how sure it was, and on request how it got there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from disco_mt.decoding.candidate_score import Reading

Token = TypeVar("Token", int, str)  # ids inside the decoders, strings once translator.py has named them


@dataclass(frozen=True)
class CandidatePass(Generic[Token]):
    """One length candidate after one pass. All sequences have one entry a word (EOS is left out)."""

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
    candidates: tuple[CandidatePass[Token], ...]  # one a length
    winner: int  # the best candidate of this pass
    sentence: int = 0  # which sentence: of the batch; once translator.py tells it, of the text
    text: int = 0  # which text, where several are translated


OnPass = Callable[[Pass[Token]], None]
"""What a caller may do with each pass; if it raises, decoding ends with that error."""


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
    steps: int  # sequential decoder passes, the paper's "Step"; and what it took to place pins
    trace: Trace[Token] | None = None
    candidates: tuple[tuple[Token, ...], ...] = field(default=(), kw_only=True)
    """The last state of every length candidate, for rescoring; likeliest length first."""
    pinned: tuple[bool, ...] = field(default=(), kw_only=True)
    """True where a word was given (its probability is 1); empty where none was."""
    candidate_pins: tuple[tuple[bool, ...], ...] = field(default=(), kw_only=True)
    """`pinned` of every length candidate."""
    readings: tuple[Reading, ...] = field(default=(), kw_only=True)
    """What the model thinks of every length candidate, where it has read them as it went (engine/)."""


@dataclass(frozen=True)
class Translation(Hypothesis[str]):
    """One finished text as a person wants it."""

    text: str = ""
    pieces: tuple[str, ...] = ()  # the tokens as they read, each with the space before it
    parts: tuple[Translation, ...] = ()  # one a sentence, where the text was split
    refused: str = ""  # why there is no translation
    copied: tuple[str, ...] = ()  # parts of the source that the model cannot read, copied into the text
