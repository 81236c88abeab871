"""Mask-predict (Section 3.1): a fixed number of passes, each predicting the least certain words anew."""

from __future__ import annotations

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.core.special_tokens import MASK
from disco_mt.decoding.length_beam import Candidates, Iterative, predict
from disco_mt.decoding.recorder import Recorder
from disco_mt.decoding.results import Hypothesis, OnPass
from disco_mt.nn.base import BestWords
from disco_mt.pins.pinned import Pinned
from disco_mt.pins.place import pinned_candidates
from disco_mt.pins.score import placing_passes


@torch.inference_mode()
def mask_predict(
    model: Iterative,
    source: Tensor,
    iterations: int,
    length_beam: int,
    trace: bool = False,
    pinned: Pinned | None = None,
    on_pass: OnPass[int] | None = None,
    length_penalty: float = 1.0,
) -> list[Hypothesis[int]]:
    """T passes, no early stop; the winner is the candidate with the best score, at the end.

    A word that is kept keeps the probability it had when it was last predicted; pinned words are kept always.
    """
    candidates = pinned_candidates(model, model.encode(source), length_beam, pinned, length_penalty)
    recorder = Recorder("mask-predict", len(source), trace, on_pass, placing_passes(model, pinned))
    now = BestWords(candidates.blank(), torch.zeros(candidates.words.shape, device=source.device))
    masked = candidates.free
    for step in range(1, iterations + 1):
        if step > 1:
            masked = least_certain(now.log_probs, candidates, step, iterations)
        keys = candidates.words if model.sees_masks else candidates.words & ~masked
        visible = context.observed_set(keys, candidates.eos)
        new = predict(model, candidates, now.ids.masked_fill(masked, MASK), visible, masked)
        now = _update(now, new, masked | (candidates.words & ~candidates.free))
        winner = candidates.scores(now.log_probs).argmax(dim=1)
        recorder.record(candidates, now, visible, masked, winner)
    recorder.finish(candidates, torch.ones_like(winner, dtype=torch.bool), now, winner, iterations)
    return recorder.results()


def least_certain(log_probs: Tensor, candidates: Candidates, step: int, iterations: int) -> Tensor:
    """The i_t = floor(N (T - t + 1) / T) words of lowest probability, at least one. (rows, tgt) bool.

    N counts the words that are not pinned.
    """
    free = candidates.number_free.view(-1, 1)
    number = (free * (iterations - step + 1) // iterations).clamp(min=1)
    order = context.easy_first_order(log_probs, candidates.free)
    return candidates.free & (order >= free - number)


def _update(before: BestWords, new: BestWords, changed: Tensor) -> BestWords:
    log_probs = torch.where(changed, new.log_probs, before.log_probs.to(new.log_probs.dtype))
    return BestWords(torch.where(changed, new.ids, before.ids), log_probs)
