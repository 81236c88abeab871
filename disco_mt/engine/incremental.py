"""Algorithm 1 without redundant work: the same words, steps and scores as decoding/refinement.py.

Keys and values are contextless, and the visible set of each row is fixed after the first pass. So a row that
sees no token that changed in the last pass keeps its prediction (skipping.py), a candidate without any change
has converged, and keys are projected only when a token changes. The remaining rows are one flat list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from operator import add

import torch
from torch import Tensor

from disco_mt.core.special_tokens import BOS, EOS, MASK, PAD
from disco_mt.decoding.batching import with_eos
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Hypothesis
from disco_mt.engine.runtime import Rows, Runtime, Source
from disco_mt.engine.scoring import score_candidates
from disco_mt.engine.shortlist import Shortlist
from disco_mt.engine.skipping import Exact, Skipping
from disco_mt.engine.state import State
from disco_mt.systems import decoder_for

KIND = "disco"
"""The system with contextless keys and values, which all of this relies on."""


@dataclass(frozen=True)
class Work:
    """What was computed, and what the plain algorithm would have computed."""

    sentences: int = 0
    passes: int = 0
    rows: int = 0  # decoder rows computed
    plain_rows: int = 0  # words of all candidates x passes
    keys: int = 0  # tokens whose keys and values were projected

    def __add__(self, other: Work) -> Work:
        return Work(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True)
class Finished:
    index: int  # in the caller's list
    hypothesis: Hypothesis[int]
    work: Work


class IncrementalEngine:
    """Exact incremental decoding of DisCo models on a CPU; `work` is the sum over all calls."""

    name = "incremental"

    def __init__(
        self,
        runtime: Runtime,
        precision: str = "fp32",
        shortlist: Shortlist | None = None,
        skipping: Skipping | None = None,
    ) -> None:
        """shortlist: words to choose from. skipping: which rows to skip; default: the exact rule."""
        self.runtime = runtime
        self.precision = precision
        self.shortlist = shortlist
        self.skipping = skipping or Exact()
        self.work = Work()

    def supports(self, options: DecodingOptions, request: DecodeRequest) -> bool:
        """Every strategy with fixed visible sets, without pins and traces."""
        order = decoder_for(KIND, options.strategy).order
        return order is not None and not request.watched and not any(request.pins or ())

    def decode(
        self, sentences: Sequence[Sequence[int]], options: DecodingOptions, request: DecodeRequest
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        for finished in self.finished(sentences, options, request):
            yield finished.index, finished.hypothesis

    @torch.inference_mode()
    def finished(
        self,
        sentences: Sequence[Sequence[int]],
        options: DecodingOptions = DecodingOptions(),  # noqa: B008
        request: DecodeRequest = DecodeRequest(),  # noqa: B008
    ) -> Iterator[Finished]:
        """Decode sentences (source ids without EOS); yields each as soon as it is finished.

        About `request.batch_tokens` padded source tokens are decoded at a time; a finished sentence makes
        room for the next. With a shortlist, sentences are decoded one at a time, and candidates are not
        scored here.
        """
        scoring = request.score_candidates and self.shortlist is None
        run = _Run(self.runtime, options, self.skipping, self.shortlist, scoring)
        queue = Queue(sentences, 1 if self.shortlist else request.batch_tokens)
        state: State | None = None
        while state is not None or queue:
            places = queue.next(0 if state is None else len(state.places))
            if places:
                new = run.begin(places, [sentences[place] for place in places])
                state = new if state is None else state.join(new)
            else:
                assert state is not None  # an empty batch has room
                state = run.refine(state)
            state, finished = run.leave(state)
            for sentence in finished:
                self.work += sentence.work
                yield sentence


class Queue:
    """Which sentences are next: longest first, so that sentences of similar length are decoded together."""

    def __init__(self, sentences: Sequence[Sequence[int]], batch_tokens: int) -> None:
        self.sizes = [len(sentence) + 1 for sentence in sentences]
        self.waiting = sorted(range(len(sentences)), key=lambda place: self.sizes[place])  # longest last
        self.batch_tokens = batch_tokens

    def __len__(self) -> int:
        return len(self.waiting)

    def next(self, in_flight: int) -> list[int]:
        """Indices of the sentences to begin now; several at a time, since encoding is faster in batches."""
        if not self.waiting:
            return []
        room = max(1, self.batch_tokens // self.sizes[self.waiting[-1]])
        free = room - in_flight
        if in_flight and free * 4 < room:
            return []
        return [self.waiting.pop() for _ in range(min(free, len(self.waiting)))]


@dataclass(frozen=True)
class _Run:
    """One call: its options, and the passes."""

    runtime: Runtime
    options: DecodingOptions
    skipping: Skipping
    shortlist: Shortlist | None
    scoring: bool

    def begin(self, places: list[int], sentences: list[Sequence[int]]) -> State:
        """Encode, choose lengths, first pass."""
        source = self.runtime.encode(with_eos(sentences))
        entries = None if self.shortlist is None else self.shortlist.words(sentences[0])
        lengths = self.skipping.lengths(
            source.length_log_probs, self.options.length_beam, self.runtime.longest_target
        )
        state = replace(self._blank(places, lengths, source), entries=entries)
        self._put_anchors(state)
        chosen = state.words.nonzero(as_tuple=True)
        hidden = self._first_pass(state, state.rows_at(chosen))
        best = self.runtime.best_words(hidden, entries)
        state.tokens[chosen], state.log_probs[chosen] = best.ids, best.log_probs
        visible = [self._visible(name, state) for name in self.options.orders]
        state = replace(state, changed=state.words).copied(len(visible))  # all orders share the first pass
        return replace(state, visible=torch.cat(visible, dim=1))

    def _visible(self, strategy: str, state: State) -> Tensor:
        """Visibility from the second pass on. (S, K, tgt, tgt) bool."""
        order = decoder_for(KIND, strategy).order
        assert order is not None
        log_probs, words, eos = (part.flatten(0, 1) for part in (state.log_probs, state.words, state.eos))
        return order(log_probs, words, eos, None).view(*state.words.shape, -1) & state.words[..., None]

    def _first_pass(self, state: State, rows: Rows) -> Tensor:
        """Hidden states of rows that see only the anchors."""
        if not state.start:
            return self.runtime.first_pass(rows, state.anchors(), state.source)
        both = torch.ones(len(rows.places), 2, dtype=torch.bool)
        return self.runtime.later_pass(rows, both, state.two_anchors(), state.source)

    def _blank(self, places: list[int], lengths: Tensor, source: Source) -> State:
        """Targets before anything is predicted."""
        positions = torch.arange(int(lengths.max()) + 1)
        words = positions < lengths[..., None]
        eos = positions == lengths[..., None]
        tokens = torch.full(words.shape, MASK).masked_fill_(eos, EOS).masked_fill_(~words & ~eos, PAD)
        layers, _, heads, _, size = source.keys.shape
        start = self.runtime.start
        keys = source.keys.new_zeros(layers, lengths.numel(), heads, start + len(positions), size)
        total = lengths.sum(dim=1)
        return State(
            places=torch.tensor(places),
            steps=torch.ones(len(places), dtype=torch.long),
            lengths=lengths,
            words=words,
            eos=eos,
            tokens=tokens,
            log_probs=torch.zeros(words.shape, dtype=self.runtime.dtype),
            visible=words[..., None],
            changed=words,
            keys=keys,
            source=source,
            rows=total,
            projected=torch.full_like(total, (1 + start) * lengths.shape[1]),
            start=start,
            length_penalty=self.options.alpha,
        )

    def refine(self, state: State) -> State:
        self._put_keys(state, state.changed)
        stale = self.skipping.stale(state.steps, state.visible, state.changed)
        chosen = stale.nonzero(as_tuple=True)
        tokens = state.tokens.clone()
        log_probs = state.log_probs.clone()
        if len(chosen[0]):
            visible = state.seen(state.visible[chosen])
            hidden = self.runtime.later_pass(state.rows_at(chosen), visible, state.keys, state.source)
            best = self.runtime.best_words(hidden, state.entries)
            tokens[chosen], log_probs[chosen] = best.ids, best.log_probs
        steps = state.steps + 1
        return replace(
            state,
            steps=steps,
            tokens=tokens,
            log_probs=log_probs,
            changed=self.skipping.changed(steps, state.tokens, tokens),
            rows=state.rows + stale.sum(dim=(1, 2)),
            projected=state.projected + state.changed.sum(dim=(1, 2)),
        )

    def _put_keys(self, state: State, where: Tensor) -> None:
        """Update the keys and values of the tokens at `where`, (S, K, tgt) bool."""
        candidates, places = where.flatten(0, 1).nonzero(as_tuple=True)
        if len(places):
            slots = places + state.start if state.start else places
            self.runtime.put_keys(state.tokens[where], candidates, slots, state.keys)

    def _put_anchors(self, state: State) -> None:
        """Compute keys and values of EOS and of the start token, if the model has one."""
        if not state.start:
            self._put_keys(state, state.eos)
            return
        candidates, places = state.eos.flatten(0, 1).nonzero(as_tuple=True)
        slots = torch.cat([torch.zeros_like(places), places + state.start])
        tokens = torch.tensor([BOS, EOS]).repeat_interleave(len(places))
        self.runtime.put_keys(tokens, candidates.repeat(2), slots, state.keys)

    def leave(self, state: State) -> tuple[State | None, list[Finished]]:
        """The sentences that go on, and those that are finished."""
        scores = state.scores()
        winners = scores.argmax(dim=1)  # ties: the more likely length
        same = ~state.changed.any(dim=-1)
        winner_same = same.gather(1, winners[:, None])[:, 0]
        unchanged = same.all(dim=1) if self.options.until_all_converge else winner_same
        done = self.skipping.settled(state.steps, unchanged) | (state.steps >= self.options.iterations)
        if not done.any():
            return state, []
        finished = [_finished(state, s, scores, winners) for s in done.nonzero()[:, 0].tolist()]
        if self.scoring:
            finished = self._scored(state if done.all() else state.keep(done), finished)
        return (None if done.all() else state.keep(~done)), finished

    def _scored(self, state: State, finished: list[Finished]) -> list[Finished]:
        """Add the model's scores of all candidates. state: that of the finished sentences only."""
        self._put_keys(state, state.changed)
        candidates = [sentence.hypothesis.candidates for sentence in finished]
        scores = score_candidates(self.runtime, state, candidates, self.options.both_directions)
        return [
            replace(sentence, hypothesis=replace(sentence.hypothesis, candidate_scores=of_sentence))
            for sentence, of_sentence in zip(finished, scores, strict=True)
        ]


def _finished(state: State, s: int, scores: Tensor, winners: Tensor) -> Finished:
    """Sentence s as a hypothesis."""
    lengths = state.lengths[s].tolist()
    k = int(winners[s])
    steps = int(state.steps[s])
    rows = zip(state.tokens[s].tolist(), lengths, strict=True)
    finals = tuple(tuple(row[:length]) for row, length in rows)
    probabilities = tuple(state.log_probs[s, k, : lengths[k]].exp().tolist())
    hypothesis = Hypothesis(finals[k], probabilities, float(scores[s, k]), steps, candidates=finals)
    work = Work(1, steps, int(state.rows[s]), steps * sum(lengths), int(state.projected[s]))
    return Finished(int(state.places[s]), hypothesis, work)
