"""Choosing a decoding weight on dev, as the paper chooses the length penalty of beam search: 0.0 ... 2.0.

Length candidates are compared by their mean in the paper, a penalty of 1. Here that can be chosen, too.

Of the values whose BLEU is within one standard error of the best, the one nearest to 1 is taken. (The bare
maximum is often noise: it once gained 0.11 BLEU on dev and cost 1.14 on the test set.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Hypothesis
from disco_mt.evaluation.quality import bleu_standard_error, measure
from disco_mt.translator import Translator

Weight = Literal["length_penalty", "length_weight"]
VALUES = tuple(round(0.2 * i, 1) for i in range(11))
CANDIDATE_PENALTIES = tuple(round(1 + 0.2 * i, 1) for i in range(11))
TRIES = len(VALUES)


class Tried(NamedTuple):
    """One value of the grid."""

    value: float
    bleu: float
    error: float = 0.0  # standard error of the BLEU, over dev sets of the same size


def tune(
    translator: Translator,
    lines: Sequence[str],
    references: Sequence[Sequence[str]],
    options: DecodingOptions,
    weight: Weight,
) -> Iterator[Tried]:
    """Every value of the grid, as each is done."""
    options = translator.resolved(options)
    if weight == "length_weight" and options.strategy != "autoregressive":
        translator = replace(translator, engine=_DecodedOnce(translator))
    searching = translator.model.config.kind == "autoregressive"
    language = translator.text.target.language
    for value in VALUES if searching or weight == "length_weight" else CANDIDATE_PENALTIES:
        tried = with_weight(options, weight, value)
        texts = [found.text for found in translator.translate(list(lines), tried)]
        bleu = measure(texts, references, language).bleu
        yield Tried(value, bleu, bleu_standard_error(texts, references, language))


class _DecodedOnce:
    """An engine that decodes and scores candidates once: only their ranking depends on the length weight."""

    def __init__(self, translator: Translator) -> None:
        self.name, self.precision = translator.engine.name, translator.engine.precision
        self._translator = translator
        self._found: dict[object, dict[int, Hypothesis[int]]] = {}

    def supports(self, options: DecodingOptions, request: DecodeRequest) -> bool:
        """What the engine itself does."""
        return self._translator.engine.supports(options, request)

    def decode(
        self, sentences: Sequence[Sequence[int]], options: DecodingOptions, request: DecodeRequest
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        """The same for the same sentences and options."""
        key = tuple(map(tuple, sentences)), replace(options, length_weight=None)
        if key not in self._found:
            found = dict(self._translator.engine.decode(sentences, options, request))
            reranker = self._translator.reranker_for(options)
            if reranker is not None:
                found = reranker.score_all(sentences, found, options, request)
            self._found[key] = found
        yield from self._found[key].items()


def with_weight(options: DecodingOptions, weight: Weight, value: float) -> DecodingOptions:
    """The same options but for one weight."""
    if weight == "length_penalty":
        return replace(options, length_penalty=value)
    return replace(options, length_weight=value)


def choose(tried: Sequence[Tried]) -> float:
    """The value nearest to 1, the plain mean, among those within one standard error of the best BLEU.

    Of two that are equally near the better one.
    """
    best = max(tried, key=lambda each: each.bleu)
    as_good = [each for each in tried if each.bleu >= best.bleu - best.error]
    return min(as_good, key=lambda each: (round(abs(each.value - 1), 6), -each.bleu)).value
