"""From translations to what clients read."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

from disco_mt.decoding.results import Pass, Trace, Translation
from disco_mt.serve.models import ServedModel
from disco_mt.serve.service import Order
from disco_mt.views import TraceView
from disco_mt.views.view import readable_pieces, to_data

Lines = list[list[str]]  # the sentences of each line of a text


def whole_answer(order: Order, found: Sequence[Translation], started: float) -> dict[str, Any]:
    """TranslateAnswer of the translations of all sentences, end to end. started: by time.perf_counter."""
    milliseconds = round(1000 * (time.perf_counter() - started), 1)
    rest = iter(found)
    return {
        "model": order.model.name,
        "source": order.model.source,
        "target": order.model.target,
        "strategy": order.model.check(order.options, pinned=False),
        "milliseconds": milliseconds,
        "translations": [_text_answer(order.model, lines, rest, milliseconds) for lines in order.texts],
    }


def texts_of(order: Order, found: Sequence[Translation]) -> list[str]:
    """The translated texts alone."""
    rest = iter(found)
    return [order.model.join([[next(rest).text for _ in line] for line in lines]) for lines in order.texts]


def _text_answer(
    model: ServedModel, lines: Lines, rest: Iterator[Translation], milliseconds: float
) -> dict[str, Any]:
    done = [[(source, next(rest)) for source in sentences] for sentences in lines]
    flat = [pair for pairs in done for pair in pairs]
    return {
        "text": model.join([[found.text for _, found in pairs] for pairs in done]),
        "steps": sum(found.steps for _, found in flat),
        "sentences": [_sentence(model, source, found, milliseconds) for source, found in flat],
    }


def _sentence(model: ServedModel, source: str, found: Translation, milliseconds: float) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "source": source,
        "text": found.text,
        "tokens": found.tokens,
        "pieces": found.pieces,
        "probabilities": [round(value, 6) for value in found.probabilities],
        "pinned": found.pinned,
        "score": round(found.score, 6) if math.isfinite(found.score) else 0.0,
        "steps": found.steps,
    }
    if found.trace is not None:
        view = _view(model, found.trace, found.text, found.steps, milliseconds)
        answer["trace"] = to_data(source, [view])["traces"][0]
    return answer


def pass_answer(model: ServedModel, now: Pass[str]) -> dict[str, Any]:
    """One pass as the streaming form sends it: like one of the passes of a trace."""
    trace = Trace(now.strategy, now.lengths, now.length_log_probabilities, (now.candidates,), (now.winner,))
    shown = to_data("", [_view(model, trace, "", now.step, None)])["traces"][0]
    return {
        "step": now.step,
        "lengths": shown["lengths"],
        "lengthLogProbabilities": shown["lengthLogProbabilities"],
        "winner": now.winner,
        "candidates": shown["passes"][0],
    }


def _view(
    model: ServedModel, trace: Trace[str], text: str, steps: int, milliseconds: float | None
) -> TraceView:
    return TraceView(
        trace.strategy, trace, text, steps, readable_pieces(trace, model.text.target), milliseconds
    )
