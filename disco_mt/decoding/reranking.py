"""Rescoring: the length candidates of one model, read and ranked by another in one parallel pass.

The reader is an autoregressive model, or a DisCo model read autoregressively: the very one that made the
candidates, if wanted. DisCo never predicts EOS, so its length predictor speaks for the length, with a weight
that is tuned on dev. And it can read in any order: both ways, it hears what goes ill with what follows, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import exp
from typing import Any

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import EOS, PAD
from disco_mt.decoding.candidate_score import Reading
from disco_mt.decoding.results import Hypothesis
from disco_mt.nn.encoder import Encoded
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.disco.model import DisCo

Reader = Autoregressive | DisCo
"""The models that can score a whole sentence from left to right in one pass (a CMLM cannot)."""
Way = Callable[[Tensor, Tensor], Tensor]
"""(words, eos) -> who sees whom."""
Candidates = list[list[tuple[int, ...]]]
"""The candidates of each sentence: words without EOS."""


def score_candidates(
    model: Reader, source: Tensor, candidates: Candidates, length_weight: float, both_ways: bool = False
) -> list[list[float]]:
    """The score of every candidate; source: (batch, src)."""
    readings = read_candidates(model, source, candidates, both_ways)
    return [[reading.score(length_weight) for reading in sentence] for sentence in readings]


def pick(
    hypotheses: Sequence[Hypothesis[int]], readings: Sequence[Sequence[Reading]], length_weight: float
) -> list[Hypothesis[int]]:
    """The best candidate of each sentence, with the reader's probabilities and one step more.

    Of equal scores the likelier length wins, as in the length beam.
    """
    return [
        _best(hypothesis, read, length_weight) for hypothesis, read in zip(hypotheses, readings, strict=True)
    ]


def _best(hypothesis: Hypothesis[int], readings: Sequence[Reading], length_weight: float) -> Hypothesis[int]:
    scores = [reading.score(length_weight) for reading in readings]
    score = max(scores)
    k = scores.index(score)
    pinned, trace = hypothesis.candidate_pins[k] if hypothesis.candidate_pins else (), hypothesis.trace
    return replace(
        hypothesis,
        tokens=hypothesis.candidates[k],
        probabilities=_probabilities(readings[k], pinned),
        score=score,
        steps=hypothesis.steps + 1,
        trace=trace and replace(trace, winners=(*trace.winners[:-1], k)),
        pinned=pinned,
    )


def _probabilities(reading: Reading, pinned: tuple[bool, ...]) -> tuple[float, ...]:
    """The reader's, but of given words, which are certain."""
    given = pinned or (False,) * len(reading.words)
    return tuple(1.0 if sure else exp(log) for log, sure in zip(reading.words, given, strict=True))


@torch.inference_mode()
def read_candidates(
    model: Reader, source: Tensor, candidates: Candidates, both_ways: bool = False
) -> list[list[Reading]]:
    """One decoder pass over all candidates of all sentences; source: (batch, src).

    both_ways: also from right to left, which only a DisCo model can.
    """
    distinct = [[*dict.fromkeys(sentence)] for sentence in candidates]  # several orders often agree
    flat = [words for sentence in distinct for words in sentence]
    _check_lengths(model, flat)
    numbers = torch.tensor([len(sentence) for sentence in distinct], device=source.device)
    sentences = torch.arange(len(numbers), device=source.device).repeat_interleave(numbers)
    targets, encoded = _targets(flat).to(source.device), model.encode(source).rows(sentences)
    log_probs, ends = _read(model, targets, encoded, both_ways)
    readings = iter(
        [
            Reading(tuple(row[: len(words)]), end, isinstance(model, Autoregressive))
            for words, row, end in zip(flat, log_probs.tolist(), ends.tolist(), strict=True)
        ]
    )
    found = [{words: next(readings) for words in sentence} for sentence in distinct]
    return [[read[words] for words in sentence] for read, sentence in zip(found, candidates, strict=True)]


Reads = Callable[[Reader, Tensor, Candidates, bool], list[list[Reading]]]
"""`read_candidates`, or what remembers it."""


def rescore(
    model: Reader,
    source: Tensor,
    hypotheses: list[Hypothesis[int]],
    length_weight: float,
    both_ways: bool = False,
    reads: Reads = read_candidates,
) -> list[Hypothesis[int]]:
    """Let `model` choose among the candidates that another model left in its hypotheses."""
    candidates = [list(hypothesis.candidates) for hypothesis in hypotheses]
    readings = reads(model, source, candidates, both_ways)
    return pick(hypotheses, readings, length_weight)


def _read(model: Reader, target: Tensor, encoded: Encoded, both_ways: bool) -> tuple[Tensor, Tensor]:
    """log P of the words (0 where there is none), (rows, tgt); and of the end, (rows,)."""
    words, eos = context.words_and_eos(target)
    if isinstance(model, Autoregressive):
        hidden = model.decode(target, encoded)
        ends = model.word_log_probs(hidden[eos], target[eos])
        return _placed(model.word_log_probs(hidden[words], target[words]), words), ends
    assert encoded.length_log_probs is not None
    ends = encoded.length_log_probs.gather(1, words.sum(dim=1, keepdim=True) + 1)[:, 0]  # class N + 1
    ways = reading_ways(both_ways)
    visible = torch.cat([way(words, eos) for way in ways])
    rows = torch.arange(len(target), device=target.device).repeat(len(ways))
    hidden = model.decode(target[rows], visible, encoded.rows(rows))[words[rows]]
    log_probs = model.word_log_probs(hidden, target[words].repeat(len(ways)))
    return _placed(log_probs.view(len(ways), -1).mean(dim=0), words), ends


def reading_ways(both_ways: bool) -> Sequence[Way]:
    """The orders in which a DisCo model reads."""
    return [context.left_to_right, context.right_to_left][: 1 + both_ways]


def _placed(log_probs: Tensor, words: Tensor) -> Tensor:
    """Those of all words, one after the other, where the words are; 0 elsewhere."""
    empty = torch.zeros(words.shape, dtype=log_probs.dtype, device=words.device)
    return empty.masked_scatter(words, log_probs)


def _targets(candidates: list[tuple[int, ...]]) -> Tensor:
    """Words, EOS and padding: (candidates, longest + 1)."""
    width = max(map(len, candidates)) + 1
    return torch.tensor([[*words, EOS, *[PAD] * (width - 1 - len(words))] for words in candidates])


def _check_lengths(model: Reader, candidates: list[tuple[int, ...]]) -> None:
    longest, limit = max(map(len, candidates)), model.config.longest_target
    if longest > limit:
        raise UserError(
            f"a candidate has {longest} words, but the rescoring model reads {limit} at most; "
            "rescore with a model of larger max_target and length_classes"
        )


def check_same_vocabulary(text: dict[str, Any], other: dict[str, Any]) -> None:
    """Refuse to rescore across vocabularies: compares the "text" of two model directories' config.json."""
    for side in ("source", "target"):
        for key in ("language", "sha256"):
            expected, found = text[side][key], other[side][key]
            if expected != found:
                name = "language" if key == "language" else "tokenizer (by its SHA-256)"
                raise UserError(
                    f"the rescoring model must share languages and tokenizers with the model it rescores, "
                    f"but the {side} {name} is {expected} in one and {found} in the other; "
                    "train both models on one prepared dataset"
                )
