"""A small realistic trace, written by hand after the paper's example figure.

Source: "I wanted to visit my old friends in Berlin last weekend."
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from disco_mt.decoding.results import CandidatePass, Trace
from disco_mt.views import TraceView

SOURCE = "I wanted to visit my old friends in Berlin last weekend."
PIECES = {"Wochen@@": "Wochen", "</w>": ""}

Row = tuple[str, str]  # words and their probabilities in %, separated by spaces

EASY_FIRST: list[Row] = [
    (
        "Ich wollte letztes letztes alten alten Freunde in Berlin besuchen .",
        "97 71 52 44 41 48 83 88 94 62 99",
    ),
    (
        "Ich wollte letztes Wochenende meine alten Freunde in Berlin besuchen .",
        "97 84 63 81 77 86 92 95 94 93 99",
    ),
    (
        "Ich wollte letztes Wochenende meine alten Freunde in Berlin besuchen .",
        "97 84 79 96 94 90 92 95 94 97 99",
    ),
]
MASK_PREDICT: list[Row] = [
    EASY_FIRST[0],
    ("Ich wollte letztes meine meine alten Freunde in Berlin besuchen .", "97 71 68 47 66 72 83 88 94 86 99"),
    (
        "Ich wollte letztes Wochenende meine alten Freunde in Berlin besuchen .",
        "97 71 74 90 89 72 83 88 94 86 99",
    ),
    (
        "Ich wollte letztes Wochenende meine alten Freunde in Berlin besuchen .",
        "97 88 93 90 89 72 83 88 94 86 99",
    ),
]
SHORTER: list[Row] = [
    ("Ich wollte letztes meine alten Freunde in Berlin besuchen .", "96 66 41 43 51 80 85 93 58 99"),
    ("Ich wollte letztens meine alten Freunde in Berlin besuchen .", "96 80 45 82 84 90 93 93 88 99"),
    ("Ich wollte letztens meine alten Freunde in Berlin besuchen .", "96 80 47 90 87 90 93 93 95 99"),
    ("Ich wollte letztens meine alten Freunde in Berlin besuchen .", "96 80 47 90 87 90 93 93 95 99"),
]


def easy_first_pass(rows: Sequence[Row], index: int) -> CandidatePass[str]:
    """Position n sees the positions that were surer than n in the first pass (earlier first in a tie)."""
    words, probabilities = rows[index][0].split(), _probabilities(rows[index])
    sure = _probabilities(rows[0])
    order = sorted(range(len(words)), key=lambda n: (-sure[n], n))
    observed = [tuple(sorted(order[: order.index(n)])) if index else () for n in range(len(words))]
    return _make(words, probabilities, observed, [True] * len(words))


def mask_predict_pass(rows: Sequence[Row], index: int) -> CandidatePass[str]:
    """The positions whose probability moved were masked; they see all the others."""
    words, probabilities = rows[index][0].split(), _probabilities(rows[index])
    before = _probabilities(rows[index - 1]) if index else [-1.0] * len(words)
    predicted = [old != new for old, new in zip(before, probabilities, strict=True)]
    kept = tuple(n for n, new in enumerate(predicted) if not new)
    return _make(words, probabilities, [kept if new else () for new in predicted], predicted)


def _probabilities(row: Row) -> list[float]:
    return [int(value) / 100 for value in row[1].split()]


def _make(
    words: list[str], probabilities: list[float], observed: list[tuple[int, ...]], predicted: list[bool]
) -> CandidatePass[str]:
    score = sum(map(math.log, probabilities)) / len(probabilities)
    return CandidatePass(tuple(words), tuple(probabilities), tuple(observed), tuple(predicted), score)


def easy_first() -> TraceView:
    passes = tuple((easy_first_pass(EASY_FIRST, t), easy_first_pass(SHORTER, t)) for t in range(3))
    trace = Trace("easy-first", (11, 10), (-0.41, -1.32), passes, (1, 0, 0))
    return TraceView("easy-first", trace, _text(passes), steps=3, pieces=PIECES, milliseconds=18.2)


def mask_predict() -> TraceView:
    passes = tuple((mask_predict_pass(MASK_PREDICT, t), mask_predict_pass(SHORTER, t)) for t in range(4))
    trace = Trace("mask-predict", (11, 10), (-0.41, -1.32), passes, (1, 1, 0, 0))
    return TraceView("mask-predict", trace, _text(passes), steps=4, pieces=PIECES, milliseconds=24.9)


def both() -> list[TraceView]:
    return [mask_predict(), easy_first()]


def _text(passes: tuple[tuple[CandidatePass[str], ...], ...]) -> str:
    return " ".join(passes[-1][0].tokens).replace(" .", ".")


def editing() -> TraceView:
    """A decoder that inserts and deletes words, such as a Levenshtein transformer: 3, 7, 0 and 6 words."""
    texts = (
        "Ich wollte .",
        "Ich wollte alte alte Freunde besuchen .",
        "",
        "Ich wollte alte Freunde besuchen .",
    )
    passes = []
    before = 0
    for text in texts:
        words = text.split()
        saw = tuple(range(before))
        candidate = CandidatePass(
            tuple(words), (0.9,) * len(words), (saw,) * len(words), (True,) * len(words), -0.1
        )
        passes.append((candidate,))
        before = len(words)
    trace = Trace("edit", (3,), (-0.2,), tuple(passes), (0,) * len(texts))
    return TraceView("edit", trace, "Ich wollte alte Freunde besuchen.", steps=len(texts))
