"""Algorithm 1 again, doing only what can matter: the same words, steps and scores as decoding/refinement.py.

Keys and values are contextless and each row's visible set is fixed after the first pass. So a row that sees
no token that changed in the last pass keeps its prediction (schedule.py), a candidate without a change is
final for good, and the keys of a token are projected when it changes. Rows that remain are one flat list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.core.special_tokens import BOS, EOS, MASK, PAD
from disco_mt.decoding.reranking import Way
from disco_mt.decoding.results import Hypothesis
from disco_mt.engine.pruning import Pruning
from disco_mt.engine.runtime import Rows, Runtime, Source
from disco_mt.engine.scoring import read
from disco_mt.engine.shortlist import Shortlist
from disco_mt.engine.skipping import Exact, Schedule
from disco_mt.engine.state import Draft
from disco_mt.systems.disco.orders import JOINT

Order = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(log-probs of the first pass, words, eos) -> who sees whom from the second pass on."""

ORDERS: dict[str, Order] = {
    "easy-first": lambda log_probs, words, eos: context.by_order(
        context.easy_first_order(log_probs, words), words, eos
    ),
    "left-to-right": lambda log_probs, words, eos: context.left_to_right(words, eos),
    "right-to-left": lambda log_probs, words, eos: context.right_to_left(words, eos),
    "all-but-itself": lambda log_probs, words, eos: context.all_but_itself(words, eos),
}
"""The strategies whose visible sets stay as they are: for them skipping is exact, cycles or not."""


@dataclass(frozen=True)
class Work:
    """What was computed, and what the plain algorithm would have."""

    sentences: int = 0
    passes: int = 0
    rows: int = 0  # decoder rows computed
    plain_rows: int = 0  # words of all candidates x passes
    keys: int = 0  # tokens whose keys and values were projected

    def __add__(self, other: Work) -> Work:
        return Work(
            self.sentences + other.sentences,
            self.passes + other.passes,
            self.rows + other.rows,
            self.plain_rows + other.plain_rows,
            self.keys + other.keys,
        )


@dataclass(frozen=True)
class Finished:
    """One translated sentence."""

    place: int  # in the list that was given
    hypothesis: Hypothesis[int]
    work: Work


class IncrementalEngine:
    """Decodes any number of sentences; `work` adds up over its life."""

    def __init__(self, runtime: Runtime, pruning: Pruning | None = None) -> None:
        self.runtime = runtime
        self.pruning = pruning or Pruning()
        self.shortlist = Shortlist.load(Path(self.pruning.shortlist)) if self.pruning.shortlist else None
        self.work = Work()

    @torch.inference_mode()
    def decode(
        self,
        sentences: Sequence[Sequence[int]],
        strategy: str = "easy-first",
        iterations: int = 10,
        length_beam: int = 5,
        batch_tokens: int = 1,
        schedule: Schedule | None = None,
        length_penalty: float = 1.0,
        settle_all: bool = False,
        reading: Sequence[Way] = (),
    ) -> Iterator[Finished]:
        """Sentences as source ids without EOS; results come as they are finished.

        About `batch_tokens` padded source tokens are in flight; a sentence that is finished makes room for
        the next. 1: one sentence at a time.
        reading: the ways in which the model then reads all candidates (rescoring.py), for which it has keys
        and source at hand; none with pruning, which lets keys get out of date.
        """
        orders = tuple(ORDERS[name] for name in strategy.split(JOINT))
        options = orders, iterations, length_beam, length_penalty, settle_all, schedule or Exact()
        run = _Run(self.runtime, *options, self.pruning, self.shortlist, tuple(reading))
        queue = Queue(sentences, 1 if self.shortlist else batch_tokens)
        draft: Draft | None = None
        while draft is not None or queue:
            places = queue.next(0 if draft is None else len(draft.places))
            if places:
                new = run.begin(places, [sentences[place] for place in places])
                draft = new if draft is None else draft.join(new)
            else:
                assert draft is not None  # there is room for the first
                draft = run.refine(draft)
            draft, finished = run.leave(draft)
            for each in finished:
                self.work += each.work
                yield each


class Queue:
    """Which sentences are next: long ones first, so that sentences in flight are alike."""

    def __init__(self, sentences: Sequence[Sequence[int]], batch_tokens: int) -> None:
        self.sizes = [len(sentence) + 1 for sentence in sentences]
        self.waiting = sorted(
            range(len(sentences)), key=lambda place: self.sizes[place]
        )  # taken from the end
        self.batch_tokens = batch_tokens

    def __len__(self) -> int:
        return len(self.waiting)

    def next(self, in_flight: int) -> list[int]:
        """Places of those that begin now; a few at a time at least, since encoding likes company."""
        if not self.waiting:
            return []
        room = max(1, self.batch_tokens // self.sizes[self.waiting[-1]])
        free = room - in_flight
        if in_flight and free * 4 < room:
            return []
        return [self.waiting.pop() for _ in range(min(free, len(self.waiting)))]


@dataclass(frozen=True)
class _Run:
    """One call's options and the passes themselves."""

    runtime: Runtime
    orders: tuple[Order, ...]
    iterations: int
    beam: int
    length_penalty: float
    settle_all: bool
    schedule: Schedule
    pruning: Pruning
    shortlist: Shortlist | None
    reading: tuple[Way, ...]

    def begin(self, places: list[int], sentences: list[Sequence[int]]) -> Draft:
        """Encode, choose lengths, first pass."""
        source = self.runtime.encode(_padded(sentences))
        entries = None if self.shortlist is None else self.shortlist.words(sentences[0])
        lengths = self.schedule.lengths(source.length_log_probs, self.beam, self.runtime.longest_target)
        draft = replace(self._blank(places, lengths, source), entries=entries)
        self._put_anchors(draft)
        chosen = draft.words.nonzero(as_tuple=True)
        hidden = self._first_pass(draft, draft.rows_at(chosen))
        best = self.runtime.best_words(hidden, entries)
        draft.tokens[chosen], draft.log_probs[chosen] = best.ids, best.log_probs
        flat = [each.flatten(0, 1) for each in (draft.log_probs, draft.words, draft.eos)]
        seen = [order(*flat).view(*draft.words.shape, -1) & draft.words[..., None] for order in self.orders]
        draft = replace(draft, changed=draft.words).copied(len(self.orders))  # the first pass is that of all
        return self.pruning.dropped(replace(draft, visible=torch.cat(seen, dim=1)))

    def _first_pass(self, draft: Draft, rows: Rows) -> Tensor:
        """Hidden states of rows that see nothing but the anchors."""
        if not draft.start:
            return self.runtime.first_pass(rows, draft.anchors(), draft.source)
        both = torch.ones(len(rows.places), 2, dtype=torch.bool)
        return self.runtime.later_pass(rows, both, draft.two_anchors(), draft.source)

    def _blank(self, places: list[int], lengths: Tensor, source: Source) -> Draft:
        """Targets before anything is known."""
        spots = torch.arange(int(lengths.max()) + 1)
        words, eos = spots < lengths[..., None], spots == lengths[..., None]
        tokens = torch.full(words.shape, MASK).masked_fill_(eos, EOS).masked_fill_(~words & ~eos, PAD)
        layers, _, heads, _, size = source.keys.shape
        start = self.runtime.start
        keys = source.keys.new_zeros(layers, lengths.numel(), heads, start + len(spots), size)
        total = lengths.sum(dim=1)
        return Draft(
            *(torch.tensor(places), torch.ones(len(places), dtype=torch.long), lengths),
            *(torch.ones_like(lengths, dtype=torch.bool), words, eos, tokens),
            log_probs=torch.zeros(words.shape, dtype=self.runtime.dtype),
            visible=words[..., None],
            changed=words,
            keys=keys,
            source=source,
            rows=total,
            projected=torch.full_like(total, (1 + start) * lengths.shape[1]),
            start=start,
            length_penalty=self.length_penalty,
        )

    def refine(self, draft: Draft) -> Draft:
        """One more pass for every sentence in flight."""
        self._put_keys(draft, draft.changed)
        stale = self.schedule.stale(draft.steps, draft.visible, draft.changed)
        chosen = stale.nonzero(as_tuple=True)
        tokens, log_probs = draft.tokens.clone(), draft.log_probs.clone()
        if len(chosen[0]):
            rows, visible = draft.rows_at(chosen), draft.seen(draft.visible[chosen])
            hidden = self.runtime.later_pass(rows, visible, draft.keys, draft.source)
            best = self.runtime.best_words(hidden, draft.entries)
            tokens[chosen], log_probs[chosen] = best.ids, best.log_probs
        steps = draft.steps + 1
        refined = replace(
            draft,
            steps=steps,
            tokens=tokens,
            log_probs=log_probs,
            changed=self.schedule.changed(steps, draft.tokens, tokens),
            rows=draft.rows + stale.sum(dim=(1, 2)),
            projected=draft.projected + draft.changed.sum(dim=(1, 2)),
        )
        return self.pruning.dropped(refined)

    def _put_keys(self, draft: Draft, where: Tensor) -> None:
        """Keys and values of the tokens there. where: (S, K, tgt) bool."""
        candidates, places = where.flatten(0, 1).nonzero(as_tuple=True)
        if len(places):
            slots = places + draft.start if draft.start else places
            self.runtime.put_keys(draft.tokens[where], candidates, slots, draft.keys)

    def _put_anchors(self, draft: Draft) -> None:
        """Keys and values of EOS and, in models that have one, of the start token."""
        if not draft.start:
            self._put_keys(draft, draft.eos)
            return
        candidates, places = draft.eos.flatten(0, 1).nonzero(as_tuple=True)
        slots = torch.cat([torch.zeros_like(places), places + draft.start])
        tokens = torch.tensor([BOS, EOS]).repeat_interleave(len(places))
        self.runtime.put_keys(tokens, candidates.repeat(2), slots, draft.keys)

    def leave(self, draft: Draft) -> tuple[Draft | None, list[Finished]]:
        """Part the sentences that are finished from the others."""
        scores = draft.scores()
        winners = scores.argmax(dim=1)  # of equal scores the likelier length
        same = ~draft.changed.any(dim=-1)
        unchanged = same.all(dim=1) if self.settle_all else same.gather(1, winners[:, None])[:, 0]
        done = self.schedule.settled(draft.steps, unchanged) | (draft.steps >= self.iterations)
        if not done.any():
            return draft, []
        finished = [_finished(draft, s, scores, winners) for s in done.nonzero()[:, 0].tolist()]
        if self.reading:
            finished = self._read(draft if done.all() else draft.keep(done), finished)
        return (None if done.all() else draft.keep(~done)), finished

    def _read(self, draft: Draft, finished: list[Finished]) -> list[Finished]:
        """Add what the model thinks of all candidates. draft: of the finished sentences alone."""
        self._put_keys(draft, draft.changed)
        readings = read(self.runtime, draft, [each.hypothesis.candidates for each in finished], self.reading)
        return [
            replace(each, hypothesis=replace(each.hypothesis, readings=its))
            for each, its in zip(finished, readings, strict=True)
        ]


def _finished(draft: Draft, s: int, scores: Tensor, winners: Tensor) -> Finished:
    """Sentence s as a hypothesis."""
    lengths, k, steps = draft.lengths[s].tolist(), int(winners[s]), int(draft.steps[s])
    rows = zip(draft.tokens[s].tolist(), lengths, strict=True)
    finals = tuple(tuple(row[:length]) for row, length in rows)
    probabilities = tuple(draft.log_probs[s, k, : lengths[k]].exp().tolist())
    hypothesis = Hypothesis(finals[k], probabilities, float(scores[s, k]), steps, candidates=finals)
    work = Work(1, steps, int(draft.rows[s]), steps * sum(lengths), int(draft.projected[s]))
    return Finished(int(draft.places[s]), hypothesis, work)


def _padded(sentences: list[Sequence[int]]) -> Tensor:
    width = max(map(len, sentences)) + 1
    return torch.tensor([[*ids, EOS, *[PAD] * (width - len(ids) - 1)] for ids in sentences])
