"""From tensors to results: hypotheses, and traces of all passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from disco_mt.decoding.length_beam import Candidates
from disco_mt.decoding.options import DecodeRequest
from disco_mt.decoding.results import CandidatePass, Hypothesis, Pass, Trace
from disco_mt.nn.base import BestWords, ParallelModel


@dataclass
class Recorder:
    """Collects finished sentences and, on request, every pass of every candidate."""

    strategy: str
    size: int  # sentences in the batch
    request: DecodeRequest
    earlier_passes: Sequence[int] = ()  # passes spent on placing pins, by sentence; empty: no pins
    finished: dict[int, Hypothesis[int]] = field(default_factory=dict)
    passes: dict[int, list[Pass[int]]] = field(default_factory=dict)

    @staticmethod
    def for_request(strategy: str, source: Tensor, model: ParallelModel, request: DecodeRequest) -> Recorder:
        """source: (batch, src)."""
        earlier = () if request.pins is None else request.pins.passes(model)
        return Recorder(strategy, len(source), request, earlier)

    def record(
        self, candidates: Candidates, now: BestWords, visible: Tensor, predicted: Tensor, winner: Tensor
    ) -> None:
        """Record one pass. visible: (rows, tgt, tgt); predicted: (rows, tgt); winner: (B,)."""
        if not self.request.watched:
            return
        scores = candidates.scores(now.log_probs)
        for b, sentence in enumerate(candidates.sentences.tolist()):
            rows = range(b * candidates.beam, (b + 1) * candidates.beam)
            earlier = self.passes.setdefault(sentence, [])
            this_pass = Pass(
                self.strategy,
                step=len(earlier) + 1,
                lengths=tuple(candidates.lengths[b].tolist()),
                length_log_probabilities=tuple(candidates.log_probs[b].tolist()),
                candidates=tuple(
                    _candidate_pass(candidates, now, visible, predicted, row, float(scores[b, k]))
                    for k, row in enumerate(rows)
                ),
                winner=int(winner[b]),
                sentence=sentence,
            )
            earlier.append(this_pass)
            if self.request.on_pass is not None:
                self.request.on_pass(this_pass)

    def finish(
        self, candidates: Candidates, done: Tensor, now: BestWords, winner: Tensor, steps: int
    ) -> None:
        """Turn the winners of the `done` (B,) sentences into hypotheses."""
        scores = candidates.scores(now.log_probs)
        for b in done.nonzero()[:, 0].tolist():
            k, sentence = int(winner[b]), int(candidates.sentences[b])
            finals, pins = _final_words(candidates, now, b), _final_pins(candidates, b)
            self.finished[sentence] = Hypothesis(
                finals[k],
                _probabilities(candidates, now, b * candidates.beam + k, len(finals[k])),
                float(scores[b, k]),
                steps + (self.earlier_passes[sentence] if self.earlier_passes else 0),
                self._trace(sentence),
                candidates=finals,
                pinned=pins[k] if pins else (),
                candidate_pins=pins,
            )

    def _trace(self, sentence: int) -> Trace[int] | None:
        if not self.request.trace:
            return None
        passes = self.passes[sentence]
        return Trace(
            self.strategy,
            passes[0].lengths,
            passes[0].length_log_probabilities,
            tuple(this_pass.candidates for this_pass in passes),
            tuple(this_pass.winner for this_pass in passes),
        )

    def results(self) -> list[Hypothesis[int]]:
        """One hypothesis per sentence, in the order of the batch."""
        return [self.finished[sentence] for sentence in range(self.size)]


def _final_words(candidates: Candidates, now: BestWords, b: int) -> tuple[tuple[int, ...], ...]:
    rows = now.ids[b * candidates.beam : (b + 1) * candidates.beam].tolist()
    return tuple(
        tuple(row[:length]) for row, length in zip(rows, candidates.lengths[b].tolist(), strict=True)
    )


def _final_pins(candidates: Candidates, b: int) -> tuple[tuple[bool, ...], ...]:
    rows = range(b * candidates.beam, (b + 1) * candidates.beam)
    pins = tuple(
        _pins(candidates, row, length)
        for row, length in zip(rows, candidates.lengths[b].tolist(), strict=True)
    )
    return pins if any(pins) else ()


def _pins(candidates: Candidates, row: int, length: int) -> tuple[bool, ...]:
    """Which words are pinned; empty if none are."""
    pinned = [] if candidates.pins is None else candidates.pins.where[row, :length].tolist()
    return tuple(pinned) if any(pinned) else ()


def _probabilities(candidates: Candidates, now: BestWords, row: int, length: int) -> tuple[float, ...]:
    """Probability of each word; that of a pinned word is 1."""
    pinned = candidates.words[row, :length] & ~candidates.free[row, :length]
    return tuple(now.log_probs[row, :length].masked_fill(pinned, 0.0).exp().tolist())


def _candidate_pass(
    candidates: Candidates, now: BestWords, visible: Tensor, predicted: Tensor, row: int, score: float
) -> CandidatePass[int]:
    length = int(candidates.words[row].sum())
    seen = visible[row, :length, :length].tolist()
    pinned = _pins(candidates, row, length)
    return CandidatePass(
        tuple(now.ids[row, :length].tolist()),
        _probabilities(candidates, now, row, length),
        tuple(
            () if pinned and pinned[n] else tuple(m for m, sees in enumerate(sight) if sees)
            for n, sight in enumerate(seen)
        ),
        tuple(predicted[row, :length].tolist()),
        score,
        pinned,
    )
