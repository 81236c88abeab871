"""Reranking: a model scores the length candidates in one parallel pass, and the best one is taken.

The reranker is an autoregressive model, or a DisCo model that scores words left to right: another one, or the
model itself (self-reranking). DisCo never predicts EOS, so its length predictor scores the length, with a
weight tuned on dev. It can also score right to left, which detects words that do not fit what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from typing import Any, NamedTuple

import torch
from torch import Tensor

from disco_mt.core.errors import UserError
from disco_mt.decoding.batching import batches, with_eos
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import CandidateScore, Hypothesis
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.encoder import Encoded

CandidateTokens = Sequence[Sequence[tuple[int, ...]]]
"""The candidates of each sentence, without EOS."""


class TargetScores(NamedTuple):
    """A model's scores of given targets, in one teacher-forced pass."""

    words: Tensor  # (rows, tgt) log P of each word, 0 where there is none
    end: Tensor  # (rows,) log P(EOS | Y, X), or log P(N | X) of a model that never predicts EOS
    predicts_end: bool


ScoreTargets = Callable[[Any, Tensor, Encoded, bool], TargetScores]
"""(model, targets with EOS, encoded sources, both directions?) -> scores."""


@dataclass(frozen=True)
class Reranker:
    """A model, and the function of its system that scores targets."""

    model: TranslationModel
    score: ScoreTargets

    def rerank_all(
        self,
        sentences: Sequence[Sequence[int]],
        hypotheses: Mapping[int, Hypothesis[int]],
        options: DecodingOptions,
        request: DecodeRequest,
    ) -> dict[int, Hypothesis[int]]:
        """The best candidate of each sentence, by index. sentences: source ids without EOS."""
        scored = self.score_all(sentences, hypotheses, options, request)
        return {index: best_candidate(hypothesis, options.weight) for index, hypothesis in scored.items()}

    def score_all(
        self,
        sentences: Sequence[Sequence[int]],
        hypotheses: Mapping[int, Hypothesis[int]],
        options: DecodingOptions,
        request: DecodeRequest,
    ) -> dict[int, Hypothesis[int]]:
        """Hypotheses with the scores of their candidates, unless an engine has already scored them."""
        device = self.model.output.weight.device
        scored = dict(hypotheses)
        unscored = [index for index in hypotheses if not hypotheses[index].candidate_scores]
        for batch in batches(sentences, unscored, 1 if request.watched else request.batch_tokens):
            source = with_eos([sentences[index] for index in batch]).to(device)
            scored |= zip(batch, self.scored(source, [hypotheses[i] for i in batch], options), strict=True)
        return scored

    def scored(
        self, source: Tensor, hypotheses: Sequence[Hypothesis[int]], options: DecodingOptions
    ) -> list[Hypothesis[int]]:
        """Hypotheses with the scores of their candidates. source: (batch, src)."""
        candidates = [hypothesis.candidates for hypothesis in hypotheses]
        scores = self.candidate_scores(source, candidates, options.both_directions)
        return [
            replace(hypothesis, candidate_scores=tuple(of_sentence))
            for hypothesis, of_sentence in zip(hypotheses, scores, strict=True)
        ]

    @torch.inference_mode()
    def candidate_scores(
        self, source: Tensor, candidates: CandidateTokens, both_directions: bool = False
    ) -> list[list[CandidateScore]]:
        """One decoder pass over all candidates of all sentences; equal ones are scored once."""
        distinct = [[*dict.fromkeys(sentence)] for sentence in candidates]
        flat = [words for sentence in distinct for words in sentence]
        self._check_lengths(flat)
        numbers = torch.tensor([len(sentence) for sentence in distinct], device=source.device)
        sentences = torch.arange(len(numbers), device=source.device).repeat_interleave(numbers)
        encoded = self.model.encode(source).rows(sentences)
        result = self.score(self.model, with_eos(flat).to(source.device), encoded, both_directions)
        rows = zip(flat, result.words.tolist(), result.end.tolist(), strict=True)
        scores = (
            CandidateScore(tuple(row[: len(words)]), end, result.predicts_end) for words, row, end in rows
        )
        by_words = [{words: next(scores) for words in sentence} for sentence in distinct]
        return [
            [scored[words] for words in sentence]
            for scored, sentence in zip(by_words, candidates, strict=True)
        ]

    def _check_lengths(self, candidates: Sequence[tuple[int, ...]]) -> None:
        longest, limit = max(map(len, candidates)), self.model.config.longest_target
        if longest > limit:
            raise UserError(
                f"a candidate has {longest} words, but the reranking model takes at most {limit}; "
                "rerank with a model of larger max_target and length_classes"
            )


def best_candidate(hypothesis: Hypothesis[int], length_weight: float) -> Hypothesis[int]:
    """The candidate with the highest score, with the reranker's probabilities and one more step.

    Ties: the more likely length, as in the length beam.
    """
    scores = [score.mean(length_weight) for score in hypothesis.candidate_scores]
    k = scores.index(max(scores))
    pinned = hypothesis.candidate_pins[k] if hypothesis.candidate_pins else ()
    trace = hypothesis.trace
    return replace(
        hypothesis,
        tokens=hypothesis.candidates[k],
        probabilities=_probabilities(hypothesis.candidate_scores[k], pinned),
        score=scores[k],
        steps=hypothesis.steps + 1,
        trace=trace and replace(trace, winners=(*trace.winners[:-1], k)),
        pinned=pinned,
    )


def _probabilities(score: CandidateScore, pinned: tuple[bool, ...]) -> tuple[float, ...]:
    """The reranker's probabilities; that of a pinned word is 1."""
    certain = pinned or (False,) * len(score.words)
    return tuple(1.0 if pin else exp(log) for log, pin in zip(score.words, certain, strict=True))


def placed(log_probs: Tensor, words: Tensor) -> Tensor:
    """Flat log probabilities of all words, at the positions of the words; 0 elsewhere."""
    empty = torch.zeros(words.shape, dtype=log_probs.dtype, device=words.device)
    return empty.masked_scatter(words, log_probs)


def check_same_vocabulary(text: dict[str, Any], other: dict[str, Any]) -> None:
    """Raise an error if two models differ in "text" of their config.json."""
    for side in ("source", "target"):
        for key in ("language", "sha256"):
            expected, actual = text[side][key], other[side][key]
            if expected != actual:
                name = "language" if key == "language" else "tokenizer (by its SHA-256)"
                raise UserError(
                    f"the reranking model must share languages and tokenizers with the model it reranks, "
                    f"but the {side} {name} is {expected} in one and {actual} in the other; "
                    "train both models on one prepared dataset"
                )
