"""Candidates read by the engine that wrote them: decoding/reranking.py, with keys and source at hand."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from disco_mt.decoding.candidate_score import Reading
from disco_mt.decoding.reranking import Way
from disco_mt.engine.runtime import Runtime
from disco_mt.engine.state import Draft


def read(
    runtime: Runtime, draft: Draft, candidates: Sequence[tuple[tuple[int, ...], ...]], ways: Sequence[Way]
) -> list[tuple[Reading, ...]]:
    """One pass over all candidates in each way; their keys must be up to date. Equal ones are read once.

    candidates: of each sentence of the draft, without EOS.
    """
    first = [[every.index(words) for words in every] for every in candidates]  # that each is equal to
    once = torch.tensor(first) == torch.arange(draft.beam)
    chosen = (draft.words & once[..., None]).nonzero(as_tuple=True)
    rows, tokens = draft.rows_at(chosen), draft.tokens[chosen]
    words, eos = draft.words.flatten(0, 1), draft.eos.flatten(0, 1)
    total = torch.zeros(len(tokens), dtype=runtime.dtype)
    for way in ways:
        visible = way(words, eos).view(*draft.words.shape, -1)[chosen]
        hidden = runtime.later_pass(rows, draft.seen(visible), draft.keys, draft.source)
        total += runtime.word_log_probs(hidden, tokens)
    log_probs = torch.zeros_like(draft.log_probs)
    log_probs[chosen] = total / len(ways)
    ends = draft.source.length_log_probs.gather(1, draft.lengths + 1)  # class N + 1
    numbers = log_probs.tolist(), draft.lengths.tolist(), ends.tolist(), first
    return [
        tuple(Reading(tuple(logs[k][: lengths[k]]), end[k], ends=False) for k in same)
        for logs, lengths, end, same in zip(*numbers, strict=True)
    ]
