"""Candidates scored by the engine that wrote them: systems/disco/scoring.py, with keys and source at hand."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from disco_mt.decoding.results import CandidateScore
from disco_mt.engine.runtime import Runtime
from disco_mt.engine.state import State
from disco_mt.systems.disco.scoring import directions


def score_candidates(
    runtime: Runtime,
    state: State,
    candidates: Sequence[tuple[tuple[int, ...], ...]],
    both_directions: bool,
) -> list[tuple[CandidateScore, ...]]:
    """One pass over all candidates in each direction; equal ones are scored once.

    Their keys must be up to date. candidates: of each sentence of the state, without EOS.
    """
    first = [[every.index(words) for words in every] for every in candidates]  # the one that each is equal to
    once = torch.tensor(first) == torch.arange(state.beam)
    chosen = (state.words & once[..., None]).nonzero(as_tuple=True)
    rows, tokens = state.rows_at(chosen), state.tokens[chosen]
    words, eos = state.words.flatten(0, 1), state.eos.flatten(0, 1)
    total = torch.zeros(len(tokens), dtype=runtime.dtype)
    orders = directions(both_directions)
    for order in orders:
        visible = order(words, eos).view(*state.words.shape, -1)[chosen]
        hidden = runtime.later_pass(rows, state.seen(visible), state.keys, state.source)
        total += runtime.word_log_probs(hidden, tokens)
    log_probs = torch.zeros_like(state.log_probs)
    log_probs[chosen] = total / len(orders)
    ends = state.source.length_log_probs.gather(1, state.lengths + 1)  # class N + 1
    numbers = zip(log_probs.tolist(), state.lengths.tolist(), ends.tolist(), first, strict=True)
    return [
        tuple(CandidateScore(tuple(logs[k][: lengths[k]]), end[k], predicts_end=False) for k in same)
        for logs, lengths, end, same in numbers
    ]
