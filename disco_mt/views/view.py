"""What every view shows of a trace."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any

from disco_mt.core.errors import UserError
from disco_mt.decoding.results import CandidatePass, Trace
from disco_mt.text.tokenizer import Tokenizer

BROKEN = "\ufffd"  # how a part of a character reads


@dataclass(frozen=True)
class TraceView:
    """One strategy's passes, and the translation they led to."""

    strategy: str  # the label, such as "easy-first"
    trace: Trace[str]
    text: str  # the final translation
    steps: int
    pieces: Mapping[str, str] = field(default_factory=dict)  # token -> readable form, where they differ
    milliseconds: float | None = None

    @cached_property
    def spaced(self) -> bool:
        """Do tokens tell by a space before them where words begin?"""
        return any(piece.startswith(" ") for piece in self.pieces.values())


def readable_pieces(trace: Trace[str], target: Tokenizer) -> dict[str, str]:
    tokens = {token: None for now in trace.passes for candidate in now for token in candidate.tokens}
    return dict(zip(tokens, target.pieces(target.ids(tokens)), strict=True))


@dataclass(frozen=True)
class Word:
    text: str
    probability: float
    changed: bool = False  # another word than in the pass before
    predicted: bool = True  # False: mask-predict kept it from an earlier pass
    chosen: bool = False  # at the position that was asked for
    observed: bool = False  # seen by the chosen position in the *next* pass, which reads these words
    pinned: bool = False


def candidate_passes(view: TraceView, candidate: int | None = None) -> list[CandidatePass[str]]:
    """All passes of one length candidate; by default of the one that won."""
    if not view.trace.passes:
        return []
    index = view.trace.winners[-1] if candidate is None else candidate
    if not 0 <= index < len(view.trace.lengths):
        raise UserError(
            f"candidate must be between 0 and {len(view.trace.lengths) - 1} for {view.strategy}, got {index}"
        )
    return [candidates[index] for candidates in view.trace.passes]


def words_by_pass(view: TraceView, candidate: int | None, position: int | None) -> list[list[Word]]:
    """The words of each pass, and which of them the chosen position (from 0) saw."""
    passes = candidate_passes(view, candidate)
    longest = max((len(now.tokens) for now in passes), default=0)
    if position is not None and passes and not 0 <= position < longest:
        raise UserError(f"position must be between 0 and {longest - 1} for {view.strategy}, got {position}")
    return [_words(view, passes, index, position) for index in range(len(passes))]


def _words(
    view: TraceView, passes: Sequence[CandidatePass[str]], index: int, position: int | None
) -> list[Word]:
    this = passes[index]
    seen: tuple[int, ...] = ()
    if position is not None and index + 1 < len(passes):
        following = passes[index + 1]
        if position < len(following.tokens) and following.predicted[position]:
            seen = following.observed[position]
    changed = changed_words(passes[index - 1].tokens if index else None, this.tokens)
    return [
        Word(
            text=piece(view, token),
            probability=this.probabilities[n],
            changed=changed[n],
            predicted=this.predicted[n],
            chosen=n == position,
            observed=n in seen,
            pinned=bool(this.pinned) and this.pinned[n],
        )
        for n, token in enumerate(this.tokens)
    ]


def same_length(rows: Sequence[Sequence[Word]]) -> bool:
    """Does every pass have the same number of words? Then each position is a column."""
    return len({len(row) for row in rows}) <= 1


def has_pins(views: Sequence[TraceView]) -> bool:
    """Is any word pinned? Then the legend explains its mark."""
    return any(any(candidate.pinned) for view in views for row in view.trace.passes for candidate in row)


def changed_words(before: Sequence[str] | None, after: Sequence[str]) -> list[bool]:
    """Where a pass chose another word. In the first pass every word is new, so none is marked.

    If the number of words has changed, too, the two passes are aligned: what was inserted has changed, what
    only moved has not.
    """
    if before is None:
        return [False] * len(after)
    if len(before) == len(after):
        return [old != new for old, new in zip(before, after, strict=True)]
    changed = [True] * len(after)
    for block in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        changed[block.b : block.b + block.size] = [False] * block.size
    return changed


def piece(view: TraceView, token: str) -> str:
    """How a token is shown: never empty, never with characters that steer a terminal or break XML."""
    return visible(view.pieces.get(token, token)).strip() or "␣"


def visible(text: str) -> str:
    """`text` with control characters, lone surrogates and non-characters replaced by U+FFFD."""
    return "".join("\ufffd" if _is_unsafe(character) else character for character in text)


def _is_unsafe(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cs") or ord(character) & 0xFFFE == 0xFFFE


def reads_right_to_left(text: str) -> bool:
    """By its first letter, as `dir="auto"` does."""
    strong = (unicodedata.bidirectional(character) for character in text)
    return next((kind != "L" for kind in strong if kind in ("L", "R", "AL")), False)


def facts(view: TraceView) -> str:
    steps = f"{view.steps} step" if view.steps == 1 else f"{view.steps} steps"
    return steps if view.milliseconds is None else f"{steps} · {view.milliseconds:.0f} ms"


def to_data(source: str, views: Sequence[TraceView]) -> dict[str, Any]:
    """Everything the page shows, as JSON values. The page's script reads exactly this."""
    return {"version": 1, "source": visible(source), "traces": [_trace_data(view) for view in views]}


def _trace_data(view: TraceView) -> dict[str, Any]:
    trace = view.trace
    return {
        "strategy": visible(view.strategy),
        "text": visible(view.text),
        "direction": "rtl" if reads_right_to_left(view.text) else "ltr",  # of the words in every pass
        "steps": view.steps,
        "milliseconds": view.milliseconds,
        "lengths": trace.lengths,
        "lengthLogProbabilities": [round(value, 4) for value in trace.length_log_probabilities],
        "winners": trace.winners,
        "passes": [
            [pass_data(view, now, trace.passes[t - 1][k] if t else None) for k, now in enumerate(candidates)]
            for t, candidates in enumerate(trace.passes)
        ],
    }


def pass_data(
    view: TraceView, candidate: CandidatePass[str], before: CandidatePass[str] | None
) -> dict[str, Any]:
    """One candidate after one pass. before: the same candidate after the pass before."""
    words = _texts(view, candidate.tokens)
    return {
        "words": words,
        "spaces": [_after_space(view, token) for token in candidate.tokens],
        "probabilities": [round(value, 4) for value in candidate.probabilities],
        "observed": candidate.observed,
        "predicted": candidate.predicted,
        "changed": changed_words(None if before is None else _texts(view, before.tokens), words),
        "pinned": candidate.pinned,
        "score": round(candidate.score, 4),
    }


def _texts(view: TraceView, tokens: Sequence[str]) -> list[str]:
    """What each token adds to the text, without spaces. Where bytes of one character are tokens of their own,
    the last of them adds the character and the others nothing."""
    pieces = [view.pieces.get(token, token) for token in tokens]
    texts = [visible(text).strip() for text in pieces]
    start = 0
    while start < len(tokens):
        end = start
        while end < len(tokens) and BROKEN in pieces[end]:
            end += 1
        if end > start:
            texts[start:end] = _whole_characters(tokens[start:end])
        start = end + 1
    return texts


def _whole_characters(tokens: Sequence[str]) -> list[str]:
    """The text that each of several byte-level tokens completes; only together are they characters."""
    from tokenizers.decoders import ByteLevel

    decoder, done, texts = ByteLevel(), "", []
    for n in range(len(tokens)):
        text = decoder.decode(list(tokens[: n + 1]))
        now = (
            text if n == len(tokens) - 1 else text.rstrip(BROKEN)
        )  # what no token completes is shown as such
        texts.append(visible(now[len(done) :]).strip())
        done = now if len(now) > len(done) else done
    return texts


def _after_space(view: TraceView, token: str) -> bool:
    """Does this token begin a word? Where no token carries a space (pretokenized text), each is a word."""
    return view.pieces.get(token, token).startswith(" ") or not view.spaced
