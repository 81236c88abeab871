"""Algorithm 1 of the paper, for any visibility after the first pass.

Plain and readable: the reference for faster versions. The result for a sentence never depends on its batch
mates: each sentence stops on its own and then leaves the batch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.decoding.length_beam import Candidates, candidates_for, predict
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.recorder import Recorder
from disco_mt.decoding.results import Hypothesis
from disco_mt.nn.base import BestWords, ParallelModel

Visibility = Callable[[Tensor, Candidates], Tensor]
"""(log-probs of the first pass, candidates) -> visibility from the second pass on."""


@torch.inference_mode()
def refine(
    model: ParallelModel,
    source: Tensor,
    visibility: Visibility,
    options: DecodingOptions,
    request: DecodeRequest,
) -> list[Hypothesis[int]]:
    """Predict every word of every candidate repeatedly until the best candidate does not change.

    source: (batch, src). `options.iterations` is T: one first pass and at most T - 1 refinements. With
    several orders, every length candidate is decoded once in each.
    """
    candidates = candidates_for(model, source, options, request).copied(len(options.orders))
    recorder = Recorder.for_request(options.strategy, source, model, request)
    pinned = candidates.words & ~candidates.free
    visible = context.observed_set(pinned, candidates.eos)
    now = predict(model, candidates, candidates.blank(), visible)
    winner = candidates.scores(now.log_probs).argmax(dim=1)  # ties: the more likely length
    recorder.record(candidates, now, visible, candidates.free, winner)
    if options.iterations > 1:
        visible = visibility(now.log_probs, candidates)
    for step in range(2, options.iterations + 1):
        before, now = now, predict(model, candidates, now.ids, visible)
        winner = candidates.scores(now.log_probs).argmax(dim=1)
        recorder.record(candidates, now, visible, candidates.free, winner)
        same = (before.ids == now.ids).all(dim=1).view(-1, candidates.beam)
        done = same.all(dim=1) if options.until_all_converge else same.gather(1, winner[:, None])[:, 0]
        recorder.finish(candidates, done, now, winner, step)
        if done.any():  # Y^{t-1, k*} = Y^{t, k*}: returned, and out of the batch
            rows = (~done).repeat_interleave(candidates.beam)
            candidates, visible, winner = candidates.keep(~done), visible[rows], winner[~done]
            now = BestWords(now.ids[rows], now.log_probs[rows])
        if not len(winner):
            break
    recorder.finish(candidates, torch.ones_like(winner, dtype=torch.bool), now, winner, options.iterations)
    return recorder.results()
