"""Decoding with DisCo: Algorithm 1 in several orders, and word by word (mask-predict is in decoding/).

Parallel easy-first (Section 3.2) predicts each word from the words that were easier: the order z is that of
the probabilities in the first pass and stays fixed. It converges within N + 1 passes, since rank r depends
only on lower ranks. The other orders are ablations (Section 5.2), or give more candidates for reranking;
all-but-itself is not an order and may cycle.
"""

from __future__ import annotations

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.core.special_tokens import BOS, EOS
from disco_mt.decoding.length_beam import Candidates, length_candidates
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.recorder import Recorder
from disco_mt.decoding.refinement import refine
from disco_mt.decoding.results import Hypothesis
from disco_mt.nn.base import BestWords
from disco_mt.nn.encoder import Encoded
from disco_mt.systems.autoregressive.model import KVCache
from disco_mt.systems.disco.model import DisCo
from disco_mt.systems.system import Order


def easy_first_order(log_probs: Tensor, words: Tensor, eos: Tensor, pinned: Tensor | None = None) -> Tensor:
    """Words see those that were easier in the first pass; pinned words come first."""
    pins_first = log_probs if pinned is None else log_probs.masked_fill(pinned, torch.inf)
    return context.by_order(context.easy_first_order(pins_first, words), words, eos)


def left_to_right_order(
    log_probs: Tensor, words: Tensor, eos: Tensor, pinned: Tensor | None = None
) -> Tensor:
    """Words see those before them, and pinned words."""
    return easy_first_order(-_places(words), words, eos, pinned)


def right_to_left_order(
    log_probs: Tensor, words: Tensor, eos: Tensor, pinned: Tensor | None = None
) -> Tensor:
    """Words see those after them, and pinned words."""
    return easy_first_order(_places(words), words, eos, pinned)


def all_but_itself(log_probs: Tensor, words: Tensor, eos: Tensor, pinned: Tensor | None = None) -> Tensor:
    return context.all_but_itself(words, eos)


def _places(words: Tensor) -> Tensor:
    places = torch.arange(words.shape[1], device=words.device, dtype=torch.float)
    return places.expand_as(words)


ORDERS: dict[str, Order] = {
    "easy-first": easy_first_order,
    "left-to-right": left_to_right_order,
    "right-to-left": right_to_left_order,
    "all-but-itself": all_but_itself,
}


def refine_in_order(
    model: DisCo, source: Tensor, options: DecodingOptions, request: DecodeRequest
) -> list[Hypothesis[int]]:
    """Algorithm 1 in the order of the strategy, or with effort "high" in three orders in parallel."""
    orders = [ORDERS[name] for name in options.orders]

    def visibility(log_probs: Tensor, candidates: Candidates) -> Tensor:
        pinned = None if candidates.pins is None else candidates.words & ~candidates.free
        by_order = [order(log_probs, candidates.words, candidates.eos, pinned) for order in orders]
        rows = torch.arange(len(log_probs), device=log_probs.device)
        copy = rows % candidates.beam // (candidates.beam // len(orders))  # the first copy, the second, ...
        return torch.stack(by_order)[copy, rows]

    return refine(model, source, visibility, options, request)


@torch.inference_mode()
def decode_autoregressively(
    model: DisCo, source: Tensor, options: DecodingOptions, request: DecodeRequest
) -> list[Hypothesis[int]]:
    """Greedy decoding, word by word, at the K most likely lengths. source: (batch, src).

    The result is the fixed point of left-to-right refinement, in N passes of one row each: keys and values
    are contextless, so those of a word are computed once. The winner has the highest (sum_n log P(Y_n | Y_<n,
    X) + length_weight * log P(N | X)) / N. Its score is the mean log probability of its words, as in every
    strategy with a length beam.
    """
    candidates = length_candidates(model, model.encode(source), options.length_beam)
    decoded = _word_by_word(model, candidates)
    length_scores = options.weight * candidates.log_probs / candidates.lengths
    winner = (candidates.scores(decoded.log_probs) + length_scores).argmax(dim=1)
    recorder = Recorder("autoregressive", len(source), request)
    passes = candidates.lengths.amax(dim=1)
    for steps in sorted(set(passes.tolist())):
        recorder.finish(candidates, passes == steps, decoded, winner, steps)
    return recorder.results()


def _word_by_word(model: DisCo, candidates: Candidates) -> BestWords:
    """The words of every candidate; a candidate leaves the batch after its last word. (rows, tgt) each."""
    encoded, cache = candidates.encoded, KVCache(len(model.layers))
    ids = candidates.blank()
    log_probs = torch.zeros(ids.shape, dtype=model.output.weight.dtype, device=ids.device)
    lengths = candidates.lengths.flatten()
    rows = torch.arange(len(lengths), device=ids.device)
    newest = _anchors(model, lengths)
    for n in range(int(lengths.max())):
        best = model.best_words(_next_position(model, newest, n, cache, encoded))
        ids[rows, n], log_probs[rows, n] = best
        unfinished = (lengths[rows] > n + 1).nonzero()[:, 0]
        newest = model.embed(best.ids[unfinished, None], start=n + model.config.start_token)
        if len(unfinished) < len(rows):
            rows, encoded = rows[unfinished], encoded.rows(unfinished)
            cache.select(unfinished)
    return BestWords(ids, log_probs)


def _anchors(model: DisCo, lengths: Tensor) -> Tensor:
    """The first keys: EOS at the end of each candidate, and the start token if the model has one.

    So no row needs a mask. lengths: (rows,) -> (rows, 1 or 2, width).
    """
    places = lengths[:, None]
    if not model.config.start_token:
        return model.embed_at(torch.full_like(places, EOS), places)
    tokens = torch.tensor([BOS, EOS], device=places.device).expand(len(places), -1)
    return model.embed_at(tokens, torch.cat([torch.zeros_like(places), places + 1], dim=1))


def _next_position(model: DisCo, newest: Tensor, n: int, cache: KVCache, encoded: Encoded) -> Tensor:
    """Hidden state of position n, given anchors and the words before it. newest: (rows, new keys, width)."""
    h = model.queries(1, start=n).expand(len(newest), -1, -1)
    for number, (layer, source) in enumerate(zip(model.decoder_layers, encoded.cross, strict=True)):
        keys = cache.extend(number, layer.contextless_keys(newest))
        h = layer(h, keys, None, source, encoded.visible)
    cache.length += newest.shape[1]
    hidden: Tensor = model.norm(h)
    return hidden[:, 0]
