"""Choosing a decoding weight on dev, as the paper chooses the length penalty of beam search: 0.0 ... 2.0.

Length candidates are compared by their mean in the paper, a penalty of 1. Here that can be chosen, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from disco_mt.decoding.batching import batches, with_eos
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Hypothesis
from disco_mt.evaluation.quality import measure
from disco_mt.translator import Translator

Weight = Literal["length_penalty", "length_weight"]
VALUES = tuple(round(0.2 * i, 1) for i in range(11))
CANDIDATE_PENALTIES = tuple(round(1 + 0.2 * i, 1) for i in range(11))
TRIES = len(VALUES)


def tune(
    translator: Translator,
    lines: Sequence[str],
    references: Sequence[Sequence[str]],
    options: DecodingOptions,
    weight: Weight,
) -> Iterator[tuple[float, float]]:
    """(value, BLEU) for every value of the grid, as each is done."""
    options = translator.resolved(options)
    if weight == "length_weight" and options.strategy != "autoregressive":
        translator = replace(translator, engine=_DecodedOnce(translator))
    searching = translator.model.config.kind == "autoregressive"
    for value in VALUES if searching or weight == "length_weight" else CANDIDATE_PENALTIES:
        tried = with_weight(options, weight, value)
        texts = [found.text for found in translator.translate(list(lines), tried)]
        yield value, measure(texts, references, translator.text.target.language).bleu


class _DecodedOnce:
    """An engine that decodes and scores candidates once: only their ranking depends on the length weight."""

    def __init__(self, translator: Translator) -> None:
        self.name, self.precision = translator.engine.name, translator.engine.precision
        self._translator = translator
        self._found: dict[object, list[tuple[int, Hypothesis[int]]]] = {}

    def supports(self, options: DecodingOptions, request: DecodeRequest) -> bool:
        """What the engine itself does."""
        return self._translator.engine.supports(options, request)

    def decode(
        self, sentences: Sequence[Sequence[int]], options: DecodingOptions, request: DecodeRequest
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        """The same for the same sentences and options."""
        key = tuple(map(tuple, sentences)), replace(options, length_weight=None)
        if key not in self._found:
            self._found[key] = list(self._scored(sentences, options, request))
        yield from self._found[key]

    def _scored(
        self, sentences: Sequence[Sequence[int]], options: DecodingOptions, request: DecodeRequest
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        found = dict(self._translator.engine.decode(sentences, options, request))
        reranker = self._translator.reranker_for(options)
        for batch in batches(sentences, list(found), request.batch_tokens):
            hypotheses = [found[index] for index in batch]
            if reranker is not None:
                source = with_eos([sentences[index] for index in batch]).to(self._translator.device)
                hypotheses = reranker.scored(source, hypotheses, options)
            yield from zip(batch, hypotheses, strict=True)


def with_weight(options: DecodingOptions, weight: Weight, value: float) -> DecodingOptions:
    """The same options but for one weight."""
    if weight == "length_penalty":
        return replace(options, length_penalty=value)
    return replace(options, length_weight=value)


def best(scores: Sequence[tuple[float, float]]) -> float:
    """The value with the highest BLEU; of equal ones the one nearest to 1, the plain mean."""
    return max(scores, key=lambda pair: (pair[1], -abs(pair[0] - 1)))[0]
