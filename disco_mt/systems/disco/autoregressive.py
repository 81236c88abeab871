"""A DisCo model read autoregressively: left to right, word by word, at each of its predicted lengths.

The fixed point of `left_to_right` refinement, reached in N passes of one row each: keys and values are
contextless, so those of a word are computed once, when it is known, and the row of no other word changes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from disco_mt.core.special_tokens import BOS, EOS
from disco_mt.decoding.length_beam import Candidates, length_candidates
from disco_mt.decoding.recorder import Recorder
from disco_mt.decoding.results import Hypothesis
from disco_mt.nn.base import BestWords
from disco_mt.nn.encoder import Encoded
from disco_mt.systems.autoregressive.model import KVCache
from disco_mt.systems.disco.model import DisCo


@torch.inference_mode()
def read_autoregressively(
    model: DisCo, source: Tensor, length_beam: int, length_weight: float = 0.0
) -> list[Hypothesis[int]]:
    """Greedy decoding at the K likeliest lengths; source: (batch, src).

    The winner has the highest (sum_n log P(Y_n | Y_<n, X) + length_weight * log P(N | X)) / N. Its score, as
    in every strategy with a length beam, is the mean log probability of its words.
    """
    candidates = length_candidates(model, model.encode(source), length_beam)
    read = _read(model, candidates)
    weighted = candidates.scores(read.log_probs) + length_weight * candidates.log_probs / candidates.lengths
    recorder = Recorder("autoregressive", len(source), False)
    passes = candidates.lengths.amax(dim=1)
    for steps in sorted(set(passes.tolist())):
        recorder.finish(candidates, passes == steps, read, weighted.argmax(dim=1), steps)
    return recorder.results()


def _read(model: DisCo, candidates: Candidates) -> BestWords:
    """The words of every candidate; a candidate leaves the batch with its last word. (rows, tgt) each."""
    encoded, past = candidates.encoded, KVCache(len(model.layers))
    ids = candidates.blank()
    log_probs = torch.zeros(ids.shape, dtype=model.output.weight.dtype, device=ids.device)
    lengths = candidates.lengths.flatten()
    rows = torch.arange(len(lengths), device=ids.device)
    newest = _anchors(model, lengths)
    for n in range(int(lengths.max())):
        best = model.best_words(_next_position(model, newest, n, past, encoded))
        ids[rows, n], log_probs[rows, n] = best
        on = (lengths[rows] > n + 1).nonzero()[:, 0]
        newest = model.embed(best.ids[on, None], start=n + model.config.start_token)
        if len(on) < len(rows):
            rows, encoded = rows[on], encoded.rows(on)
            past.select(on)
    return BestWords(ids, log_probs)


def _anchors(model: DisCo, lengths: Tensor) -> Tensor:
    """The first keys: EOS at its own place in each candidate, and the start token if the model has one.

    No row needs a mask after that. lengths: (rows,) -> (rows, 1 or 2, width).
    """
    places = lengths[:, None]
    if not model.config.start_token:
        return model.embed_at(torch.full_like(places, EOS), places)
    tokens = torch.tensor([BOS, EOS], device=places.device).expand(len(places), -1)
    return model.embed_at(tokens, torch.cat([torch.zeros_like(places), places + 1], dim=1))


def _next_position(model: DisCo, newest: Tensor, n: int, past: KVCache, encoded: Encoded) -> Tensor:
    """Position n (from 0) seen from its anchors and the words before it. newest: (rows, new keys, width)."""
    h = model.queries(1, start=n).expand(len(newest), -1, -1)
    for place, (layer, source) in enumerate(zip(model.decoder_layers, encoded.cross, strict=True)):
        keys = past.extend(place, layer.contextless_keys(newest))
        h = layer(h, keys, None, source, encoded.visible)
    past.length += newest.shape[1]
    hidden: Tensor = model.norm(h)
    return hidden[:, 0]
