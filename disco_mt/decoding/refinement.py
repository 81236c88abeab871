"""Algorithm 1 of the paper, for any way of choosing who sees whom after the first pass.

Plain and readable: the reference that faster versions must equal. What a sentence becomes never depends on
its batch mates: each stops by its own rule and leaves the batch when it does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.decoding.length_beam import Candidates, predict
from disco_mt.decoding.recorder import Recorder
from disco_mt.decoding.results import Hypothesis, OnPass
from disco_mt.nn.base import BestWords
from disco_mt.pins.pinned import Pinned
from disco_mt.pins.place import pinned_candidates
from disco_mt.pins.score import placing_passes
from disco_mt.systems.disco.model import DisCo

Visibility = Callable[[Tensor, Candidates], Tensor]
"""(log-probs of the first pass, candidates) -> who sees whom from the second pass on."""


@torch.inference_mode()
def refine(
    model: DisCo,
    source: Tensor,
    visibility: Visibility,
    strategy: str,
    iterations: int,
    beam: int,
    trace: bool,
    pinned: Pinned | None = None,
    on_pass: OnPass[int] | None = None,
    length_penalty: float = 1.0,
    settle_all: bool = False,
    copies: int = 1,
) -> list[Hypothesis[int]]:
    """Predict every word of every candidate again and again until the best candidate stays as it is.

    source: (batch, src). `iterations` is T: one first pass and at most T - 1 refinements. settle_all: until
    every candidate does, not the best alone as in the paper; for readers that may prefer another one. copies:
    of each length, for as many orders (other_orders.py).
    """
    candidates = pinned_candidates(model, model.encode(source), beam, pinned, length_penalty).copied(copies)
    recorder = Recorder(strategy, len(source), trace, on_pass, placing_passes(model, pinned))
    visible = context.observed_set(
        candidates.words & ~candidates.free, candidates.eos
    )  # nothing, or the pins
    now = predict(model, candidates, candidates.blank(), visible)
    winner = candidates.scores(now.log_probs).argmax(dim=1)  # of equal scores the likelier length
    recorder.record(candidates, now, visible, candidates.free, winner)
    if iterations > 1:
        visible = visibility(now.log_probs, candidates)
    for step in range(2, iterations + 1):
        before, now = now, predict(model, candidates, now.ids, visible)
        winner = candidates.scores(now.log_probs).argmax(dim=1)
        recorder.record(candidates, now, visible, candidates.free, winner)
        done = _unchanged(candidates, before.ids, now.ids, winner, settle_all)
        recorder.finish(candidates, done, now, winner, step)
        if done.any():  # Y^{t-1, k*} = Y^{t, k*}: returned, and out of the batch
            rows = (~done).repeat_interleave(candidates.beam)
            candidates, visible, winner = candidates.keep(~done), visible[rows], winner[~done]
            now = BestWords(now.ids[rows], now.log_probs[rows])
        if not len(winner):
            break
    recorder.finish(candidates, torch.ones_like(winner, dtype=torch.bool), now, winner, iterations)
    return recorder.results()


def _unchanged(
    candidates: Candidates, before: Tensor, now: Tensor, winner: Tensor, settle_all: bool
) -> Tensor:
    """Is the winner, or every candidate, the same as in the pass before? (B,) bool."""
    same = (before == now).all(dim=1).view(-1, candidates.beam)
    return same.all(dim=1) if settle_all else same.gather(1, winner[:, None])[:, 0]
