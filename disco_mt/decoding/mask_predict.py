"""Mask-predict (Section 3.1): a fixed number of passes, each predicting the least certain words again."""

from __future__ import annotations

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.core.special_tokens import MASK
from disco_mt.decoding.length_beam import Candidates, candidates_for, predict
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.recorder import Recorder
from disco_mt.decoding.results import Hypothesis
from disco_mt.nn.base import BestWords, ParallelModel


@torch.inference_mode()
def mask_predict(
    model: ParallelModel, source: Tensor, options: DecodingOptions, request: DecodeRequest
) -> list[Hypothesis[int]]:
    """T passes without early stopping; the candidate with the best score after the last pass wins.

    Words that are not predicted again keep their probability; pinned words are never predicted.
    """
    candidates = candidates_for(model, source, options, request)
    recorder = Recorder.for_request("mask-predict", source, model, request)
    now = BestWords(candidates.blank(), torch.zeros(candidates.words.shape, device=source.device))
    masked = candidates.free
    for step in range(1, options.iterations + 1):
        if step > 1:
            masked = least_certain(now.log_probs, candidates, step, options.iterations)
        keys = candidates.words if model.sees_masks else candidates.words & ~masked
        visible = context.observed_set(keys, candidates.eos)
        new = predict(model, candidates, now.ids.masked_fill(masked, MASK), visible, masked)
        now = _update(now, new, masked | (candidates.words & ~candidates.free))
        winner = candidates.scores(now.log_probs).argmax(dim=1)
        recorder.record(candidates, now, visible, masked, winner)
    recorder.finish(candidates, torch.ones_like(winner, dtype=torch.bool), now, winner, options.iterations)
    return recorder.results()


def least_certain(log_probs: Tensor, candidates: Candidates, step: int, iterations: int) -> Tensor:
    """The floor(N (T - t + 1) / T) words of lowest probability, at least one. (rows, tgt) bool.

    N is the number of words that are not pinned.
    """
    free = candidates.number_free.view(-1, 1)
    number = (free * (iterations - step + 1) // iterations).clamp(min=1)
    order = context.easy_first_order(log_probs, candidates.free)
    return candidates.free & (order >= free - number)


def _update(before: BestWords, new: BestWords, changed: Tensor) -> BestWords:
    log_probs = torch.where(changed, new.log_probs, before.log_probs.to(new.log_probs.dtype))
    return BestWords(torch.where(changed, new.ids, before.ids), log_probs)
