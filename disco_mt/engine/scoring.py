"""The engine scores its own candidates: systems/disco/scoring.py, reusing keys and encoded source."""

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
    """One pass over all candidates in each direction; of equal ones only the first is scored.

    Their keys must be up to date. candidates: of each sentence of the state, without EOS.
    """
    first = [[of_sentence.index(words) for words in of_sentence] for of_sentence in candidates]
    distinct = torch.tensor(first) == torch.arange(state.beam)
    chosen = (state.words & distinct[..., None]).nonzero(as_tuple=True)
    rows = state.rows_at(chosen)
    tokens = state.tokens[chosen]
    words = state.words.flatten(0, 1)
    eos = state.eos.flatten(0, 1)
    total = torch.zeros(len(tokens), dtype=runtime.dtype)
    orders = directions(both_directions)
    for order in orders:
        visible = order(words, eos).view(*state.words.shape, -1)[chosen]
        hidden = runtime.later_pass(rows, state.seen(visible), state.keys, state.source)
        total += runtime.word_log_probs(hidden, tokens)
    log_probs = torch.zeros_like(state.log_probs)
    log_probs[chosen] = total / len(orders)
    ends = state.source.length_log_probs.gather(1, state.lengths + 1)  # class N + 1
    by_sentence = zip(log_probs.tolist(), state.lengths.tolist(), ends.tolist(), first, strict=True)
    return [
        tuple(CandidateScore(tuple(logs[k][: lengths[k]]), end[k], predicts_end=False) for k in scored)
        for logs, lengths, end, scored in by_sentence
    ]
