"""Choosing a decoding weight on dev, as the paper chooses the length penalty of beam search: 0.0 ... 2.0.

Length candidates are compared by their mean in the paper, a penalty of 1. Here that can be chosen, too.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Literal

from torch import Tensor

from disco_mt.decoding.candidate_score import Reading
from disco_mt.decoding.options import DecodingOptions
from disco_mt.decoding.reranking import Candidates, Reader, Reads, read_candidates
from disco_mt.decoding.results import Hypothesis
from disco_mt.engine.select import Engine
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
    if weight == "length_weight":  # what the reader thinks of the candidates does not hang on it
        engine = None if translator.engine is None else _Remembering(translator.engine)
        translator = replace(translator, engine=engine, reads=_remembering())
    searching = translator.model.config.kind == "autoregressive"
    for value in VALUES if searching or weight == "length_weight" else CANDIDATE_PENALTIES:
        tried = with_weight(options, weight, value)
        texts = [found.text for found in translator.translate(lines, **asdict(tried))]
        yield value, measure(texts, references, translator.text.target.language).bleu


class _Remembering:
    """An engine that decodes once for all weights of the length: a reader ranks with them what was found."""

    def __init__(self, engine: Engine) -> None:
        self.name, self.precision, self._engine = engine.name, engine.precision, engine
        self._found: list[tuple[int, Hypothesis[int]]] = []

    def fits(self, options: DecodingOptions) -> bool:
        """Not where the weight is part of the search."""
        return options.strategy != "autoregressive" and self._engine.fits(options)

    def decode(
        self, sentences: Sequence[list[int]], options: DecodingOptions, batch_tokens: int, read: bool = False
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        """The same sentences every time."""
        self._found = self._found or [*self._engine.decode(sentences, options, batch_tokens, read)]
        yield from self._found


def _remembering() -> Reads:
    """A reader that reads once: the same candidates come again with every weight."""
    known: dict[Hashable, list[list[Reading]]] = {}

    def reads(model: Reader, source: Tensor, candidates: Candidates, both_ways: bool) -> list[list[Reading]]:
        key = tuple(map(tuple, source.tolist())), tuple(map(tuple, candidates)), both_ways
        if key not in known:
            known[key] = read_candidates(model, source, candidates, both_ways)
        return known[key]

    return reads


def with_weight(options: DecodingOptions, weight: Weight, value: float) -> DecodingOptions:
    """The same options but for one weight."""
    if weight == "length_penalty":
        return replace(options, length_penalty=value)
    return replace(options, length_weight=value)


def best(scores: Sequence[tuple[float, float]]) -> float:
    """The value with the highest BLEU; of equal ones the one nearest to 1, the plain mean."""
    return max(scores, key=lambda pair: (pair[1], -abs(pair[0] - 1)))[0]
