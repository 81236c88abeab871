"""From tensors to results: hypotheses, and the trace of how they came about."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from disco_mt.decoding.length_beam import Candidates
from disco_mt.decoding.translation import CandidatePass, Hypothesis, Trace
from disco_mt.models.base import BestWords

Passes = list[tuple[CandidatePass[int], ...]]


@dataclass
class Recorder:
    """Collects finished sentences, and every pass of every candidate where a trace is wanted."""

    strategy: str
    size: int  # sentences in the batch
    wanted: bool  # keep traces
    finished: dict[int, Hypothesis[int]] = field(default_factory=dict)
    passes: dict[int, Passes] = field(default_factory=dict)
    winners: dict[int, list[int]] = field(default_factory=dict)

    def record(
        self, candidates: Candidates, now: BestWords, visible: Tensor, predicted: Tensor, winner: Tensor
    ) -> None:
        """Note one pass. visible: (rows, tgt, tgt); predicted: (rows, tgt); winner: (B,)."""
        if not self.wanted:
            return
        scores = candidates.scores(now.log_probs)
        for b, sentence in enumerate(candidates.sentences.tolist()):
            rows = range(b * candidates.beam, (b + 1) * candidates.beam)
            views = tuple(
                _candidate_pass(candidates, now, visible, predicted, row, float(scores[b, k]))
                for k, row in enumerate(rows)
            )
            self.passes.setdefault(sentence, []).append(views)
            self.winners.setdefault(sentence, []).append(int(winner[b]))

    def finish(
        self, candidates: Candidates, done: Tensor, now: BestWords, winner: Tensor, steps: int
    ) -> None:
        """Turn the winners of the `done` (B,) sentences into hypotheses."""
        scores = candidates.scores(now.log_probs)
        for b in done.nonzero()[:, 0].tolist():
            k, sentence = int(winner[b]), int(candidates.sentences[b])
            finals = _final_words(candidates, now, b)
            self.finished[sentence] = Hypothesis(
                finals[k],
                tuple(now.log_probs[b * candidates.beam + k, : len(finals[k])].exp().tolist()),
                float(scores[b, k]),
                steps,
                self._trace(candidates, b, sentence),
                candidates=finals,
            )

    def _trace(self, candidates: Candidates, b: int, sentence: int) -> Trace[int] | None:
        if not self.wanted:
            return None
        lengths, log_probs = candidates.lengths[b].tolist(), candidates.log_probs[b].tolist()
        passes, winners = tuple(self.passes[sentence]), tuple(self.winners[sentence])
        return Trace(self.strategy, tuple(lengths), tuple(log_probs), passes, winners)

    def results(self) -> list[Hypothesis[int]]:
        """One hypothesis a sentence, in the order of the batch."""
        return [self.finished[sentence] for sentence in range(self.size)]


def _final_words(candidates: Candidates, now: BestWords, b: int) -> tuple[tuple[int, ...], ...]:
    rows = now.ids[b * candidates.beam : (b + 1) * candidates.beam].tolist()
    return tuple(
        tuple(row[:length]) for row, length in zip(rows, candidates.lengths[b].tolist(), strict=True)
    )


def _candidate_pass(
    candidates: Candidates, now: BestWords, visible: Tensor, predicted: Tensor, row: int, score: float
) -> CandidatePass[int]:
    length = int(candidates.words[row].sum())
    seen = visible[row, :length, :length].tolist()
    return CandidatePass(
        tuple(now.ids[row, :length].tolist()),
        tuple(now.log_probs[row, :length].exp().tolist()),
        tuple(tuple(m for m, sees in enumerate(sight) if sees) for sight in seen),
        tuple(predicted[row, :length].tolist()),
        score,
    )
