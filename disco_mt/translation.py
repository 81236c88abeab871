"""From the results of decoders to translations: ids become tokens and text, sentences become texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from disco_mt.decoding.results import CandidatePass, Hypothesis, OnPass, Pass, Trace, Translation
from disco_mt.text.languages import is_spaceless
from disco_mt.text.lines import one_line
from disco_mt.text.tokenizer import Tokenizer
from disco_mt.text.unknown import Aside


def named(hypothesis: Hypothesis[int], target: Tokenizer) -> Translation:
    """Ids -> tokens and text."""
    return Translation(
        tuple(target.tokens(hypothesis.tokens)),
        hypothesis.probabilities,
        hypothesis.score,
        hypothesis.steps,
        None if hypothesis.trace is None else _trace(hypothesis.trace, target),
        one_line(target.decode(hypothesis.tokens)),
        tuple(target.pieces(hypothesis.tokens)),
        pinned=hypothesis.pinned,
    )


def refusal(why: str = "") -> Translation:
    """An empty translation: of an empty text, or with the reason why there is none."""
    return Translation((), (), 0.0, 0, refused=why)


def restored(translation: Translation, aside: Aside | None) -> Translation:
    """The translation with the unknown parts of the source copied into it."""
    if aside is None or translation.refused:
        return translation
    return replace(translation, text=one_line(aside.restore(translation.text)), copied=aside.copied)


def joined(parts: list[Translation], language: str) -> Translation:
    """Several sentences as one text: tokens concatenated, scores averaged by token, steps added."""
    if len(parts) <= 1:
        return parts[0] if parts else refusal()
    space = "" if is_spaceless(language) else " "
    tokens = sum(len(part.tokens) for part in parts)
    return Translation(
        tuple(token for part in parts for token in part.tokens),
        tuple(p for part in parts for p in part.probabilities),
        sum(part.score * len(part.tokens) for part in parts) / max(1, tokens),
        sum(part.steps for part in parts),
        None,
        space.join(part.text for part in parts),
        tuple(piece for part in parts for piece in part.pieces),
        tuple(parts),
        pinned=_joined_pins(parts),
        copied=tuple(copied for part in parts for copied in part.copied),
    )


def named_passes(on_pass: OnPass[str], batch: Sequence[int], target: Tokenizer) -> OnPass[int]:
    """Report passes with tokens as strings, and with the index that their sentence has outside the batch."""

    def report(now: Pass[int]) -> None:
        on_pass(
            Pass(
                now.strategy,
                now.step,
                now.lengths,
                now.length_log_probabilities,
                tuple(_pass(candidate, target) for candidate in now.candidates),
                now.winner,
                batch[now.sentence],
            )
        )

    return report


def numbered_passes(on_pass: OnPass[str], texts: Sequence[Sequence[object] | str]) -> OnPass[str]:
    """Report passes with the index of their text, and that of their sentence in the text.

    texts: the sentences of each; a string is a text that was refused.
    """
    numbers = [(t, n) for t, text in enumerate(texts) if not isinstance(text, str) for n in range(len(text))]

    def report(now: Pass[str]) -> None:
        text, sentence = numbers[now.sentence]
        on_pass(replace(now, text=text, sentence=sentence))

    return report


def _joined_pins(parts: list[Translation]) -> tuple[bool, ...]:
    """One entry per token, or none at all if nothing is pinned."""
    marks = tuple(mark for part in parts for mark in part.pinned or (False,) * len(part.tokens))
    return marks if any(marks) else ()


def _trace(trace: Trace[int], target: Tokenizer) -> Trace[str]:
    passes = tuple(tuple(_pass(candidate, target) for candidate in now) for now in trace.passes)
    return Trace(trace.strategy, trace.lengths, trace.length_log_probabilities, passes, trace.winners)


def _pass(candidate: CandidatePass[int], target: Tokenizer) -> CandidatePass[str]:
    return CandidatePass(
        tuple(target.tokens(candidate.tokens)),
        candidate.probabilities,
        candidate.observed,
        candidate.predicted,
        candidate.score,
        candidate.pinned,
    )
