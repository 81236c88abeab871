"""From tensors to results: hypotheses, and the trace of how they came about."""

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
    """Collects finished sentences, and every pass of every candidate where a trace is wanted."""

    strategy: str
    size: int  # sentences in the batch
    request: DecodeRequest
    earlier_passes: Sequence[int] = ()  # passes that placed pins, by sentence; empty: no pins
    finished: dict[int, Hypothesis[int]] = field(default_factory=dict)
    passes: dict[int, list[Pass[int]]] = field(default_factory=dict)

    @staticmethod
    def for_request(strategy: str, source: Tensor, model: ParallelModel, request: DecodeRequest) -> Recorder:
        """One for a batch, source: (batch, src)."""
        earlier = () if request.pins is None else request.pins.passes(model)
        return Recorder(strategy, len(source), request, earlier)

    def record(
        self, candidates: Candidates, now: BestWords, visible: Tensor, predicted: Tensor, winner: Tensor
    ) -> None:
        """Note one pass. visible: (rows, tgt, tgt); predicted: (rows, tgt); winner: (B,)."""
        if not self.request.watched:
            return
        scores = candidates.scores(now.log_probs)
        for b, sentence in enumerate(candidates.sentences.tolist()):
            rows = range(b * candidates.beam, (b + 1) * candidates.beam)
            views = tuple(
                _candidate_pass(candidates, now, visible, predicted, row, float(scores[b, k]))
                for k, row in enumerate(rows)
            )
            self._note(candidates, b, sentence, views, int(winner[b]))

    def _note(
        self,
        candidates: Candidates,
        b: int,
        sentence: int,
        views: tuple[CandidatePass[int], ...],
        winner: int,
    ) -> None:
        earlier = self.passes.setdefault(sentence, [])
        lengths, log_probs = candidates.lengths[b].tolist(), candidates.log_probs[b].tolist()
        now = Pass(self.strategy, len(earlier) + 1, tuple(lengths), tuple(log_probs), views, winner, sentence)
        earlier.append(now)
        if self.request.on_pass is not None:
            self.request.on_pass(now)

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
            tuple(each.candidates for each in passes),
            tuple(each.winner for each in passes),
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
    """Which words are pinned; empty if none is."""
    pinned = [] if candidates.pins is None else candidates.pins.where[row, :length].tolist()
    return tuple(pinned) if any(pinned) else ()


def _probabilities(candidates: Candidates, now: BestWords, row: int, length: int) -> tuple[float, ...]:
    """How sure each word is; a pinned one is, whatever the model thinks of it."""
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
