"""Beam search for autoregressive models; a beam of 1 is greedy decoding.

The score of a hypothesis is sum(log P) / tokens ** length_penalty; both include EOS. A sentence is finished
when `beam` of its hypotheses have ended (as in fairseq and CTranslate2), or earlier if no unfinished one can
win any more. A hypothesis ends if EOS is among the `beam` best continuations of its sentence; the best others
continue. At the maximum length EOS is forced, and scored as usual.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from disco_mt.core.errors import UserError
from disco_mt.core.settings import at_least
from disco_mt.core.special_tokens import BOS, EOS, PAD
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Hypothesis
from disco_mt.nn.base import BestWords
from disco_mt.systems.autoregressive.model import Autoregressive


def beam_decoder(
    model: Autoregressive, source: Tensor, options: DecodingOptions, request: DecodeRequest
) -> list[Hypothesis[int]]:
    return beam_search(model, source, options.beam, options.alpha)


def greedy_decoder(
    model: Autoregressive, source: Tensor, options: DecodingOptions, request: DecodeRequest
) -> list[Hypothesis[int]]:
    return beam_search(model, source, 1, options.alpha)


@torch.inference_mode()
def beam_search(
    model: Autoregressive, source: Tensor, beam: int, length_penalty: float, longest: int | None = None
) -> list[Hypothesis[int]]:
    """The best hypothesis of each sentence. source: (batch, src); longest: see word_limit."""
    check_beam(beam, length_penalty)
    encoded, past = model.encode(source), model.start()
    beams = _start(source, model.config.longest_target, longest)
    finished: dict[int, Hypothesis[int]] = {}
    while len(beams.sentences):
        place = beams.words.shape[2] - 1
        visible = beams.visible if beam > 1 else None
        hidden = model.step(beams.last, place, visible, past, encoded).flatten(0, 1)
        ranked = _rank(beams, _continuations(model, hidden, beams, 2 * beam), 2 * beam)
        beams = _note_ends(beams, ranked, beam, length_penalty, finished)
        done = _done(beams, ranked, beam, length_penalty)
        beams = _advance(beams, ranked, beam)
        if done.any():  # out of the batch
            for sentence in beams.sentences[done].tolist():
                finished[sentence] = replace(finished[sentence], steps=place + 1)
            rows = (~done).nonzero()[:, 0]
            beams, encoded = beams.keep(~done), encoded.rows(rows)
            past.select(rows)
    return [finished[sentence] for sentence in range(len(source))]


def check_beam(beam: int, length_penalty: float) -> None:
    at_least("beam", beam, 1)
    if not 0 <= length_penalty < float("inf"):
        raise UserError(f"length_penalty must be at least 0, got {length_penalty}; 1 is the mean over tokens")


def word_limit(source_words: int, most: int, longest: int | None = None) -> int:
    """The maximum number of words: `longest`, or 2 N + 10 for a source of N words; at most `most`.

    2 N + 10 is rounded up to a multiple of 32, so that the sentences of a corpus have few different limits:
    CTranslate2, which takes one limit per call, translates each group of them at once.
    """
    if longest is None:
        longest = -(2 * source_words + 10) // 32 * -32
    return min(longest, most)


@dataclass(frozen=True)
class _Beams:
    """The K unfinished hypotheses of B sentences, best first; totals are -inf if there are fewer."""

    sentences: Tensor  # (B,) index of each sentence in the caller's batch
    limits: Tensor  # (B,) maximum number of words
    ended: Tensor  # (B,) hypotheses that have ended
    best: Tensor  # (B,) score of the best of them, -inf at first
    words: Tensor  # (B, K, 1 + words so far), from BOS on
    log_probs: Tensor  # the same shape; 0 for BOS
    totals: Tensor  # (B, K) sums of log probabilities
    visible: Tensor  # (B, K, cached keys and K new ones) bool: those of its own words

    @property
    def last(self) -> Tensor:
        """The newest word of each hypothesis: (B, K)."""
        return self.words[:, :, -1]

    @property
    def full(self) -> Tensor:
        """The sentences with hypotheses of maximum length: (B,) bool."""
        return self.limits < self.words.shape[2]

    def keep(self, chosen: Tensor) -> _Beams:
        """The sentences where `chosen` (B,) is True."""
        return _Beams(
            self.sentences[chosen],
            self.limits[chosen],
            self.ended[chosen],
            self.best[chosen],
            self.words[chosen],
            self.log_probs[chosen],
            self.totals[chosen],
            self.visible[chosen],
        )


@dataclass(frozen=True)
class _Ranked:
    """The best continuations of each sentence, best first, (B, 2K) each.

    Twice the beam: at most K of them are EOS (one per hypothesis), so that K others can continue.
    """

    parents: Tensor  # index of the hypothesis that is continued
    words: Tensor
    log_probs: Tensor
    totals: Tensor


def _start(source: Tensor, most: int, longest: int | None) -> _Beams:
    """One hypothesis per sentence: BOS. A beam of copies would find everything K times."""
    lengths = ((source != PAD) & (source != EOS)).sum(dim=1)
    limits = [word_limit(words, most, longest) for words in lengths.tolist()]
    words = torch.full((len(source), 1, 1), BOS, device=source.device)
    zeros = torch.zeros(words.shape, device=source.device)  # float32 at least: sums take the wider type
    return _Beams(
        sentences=torch.arange(len(source), device=source.device),
        limits=torch.tensor(limits, device=source.device),
        ended=torch.zeros_like(lengths),
        best=zeros[:, 0, 0] - torch.inf,
        words=words,
        log_probs=zeros,
        totals=zeros[:, :, 0],
        visible=torch.ones_like(words, dtype=torch.bool),
    )


def _continuations(model: Autoregressive, hidden: Tensor, beams: _Beams, number: int) -> BestWords:
    """The most likely next words of every hypothesis, or EOS at maximum length. (B * K, number) each."""
    best = model.next_words(hidden, number)
    if not beams.full.any():
        return best
    full = beams.full.repeat_interleave(beams.words.shape[1])[:, None]
    end = torch.full_like(best.ids, EOS)
    log_probs = torch.full_like(best.log_probs, -torch.inf)
    log_probs[:, 0] = model.word_log_probs(hidden, end[:, 0])
    return BestWords(torch.where(full, end, best.ids), torch.where(full, log_probs, best.log_probs))


def _rank(beams: _Beams, continuations: BestWords, number: int) -> _Ranked:
    """The best continuations of all hypotheses; totals are -inf if there are fewer."""
    batch, _ = beams.totals.shape
    per_hypothesis = continuations.ids.shape[1]
    log_probs = continuations.log_probs.view(batch, -1)  # (B, K * per_hypothesis)
    totals = beams.totals.repeat_interleave(per_hypothesis, dim=1) + log_probs
    missing = max(0, number - totals.shape[1])
    best, places = F.pad(totals, (0, missing), value=-torch.inf).topk(number, dim=1)
    places = places.clamp(max=totals.shape[1] - 1)
    words = continuations.ids.view(batch, -1).gather(1, places)
    return _Ranked(places // per_hypothesis, words, log_probs.gather(1, places), best)


def _note_ends(
    beams: _Beams, ranked: _Ranked, beam: int, length_penalty: float, finished: dict[int, Hypothesis[int]]
) -> _Beams:
    """Count the hypotheses that end here, and keep the best one if it beats all earlier ones."""
    tokens = beams.words.shape[2]  # of a hypothesis that ends here, EOS included
    totals = ranked.totals[:, :beam].masked_fill(ranked.words[:, :beam] != EOS, -torch.inf)
    scores, places = (totals / tokens**length_penalty).max(dim=1)
    for b in (scores > beams.best).nonzero()[:, 0].tolist():
        k = int(ranked.parents[b, places[b]])
        words, log_probs = beams.words[b, k, 1:], beams.log_probs[b, k, 1:]
        finished[int(beams.sentences[b])] = Hypothesis(
            tuple(words.tolist()), tuple(log_probs.exp().tolist()), float(scores[b]), tokens
        )
    ended = beams.ended + (totals > -torch.inf).sum(dim=1)
    return replace(beams, ended=ended, best=torch.maximum(beams.best, scores))


def _done(beams: _Beams, ranked: _Ranked, beam: int, length_penalty: float) -> Tensor:
    """The sentences with enough finished hypotheses, or with one that cannot be beaten: (B,) bool.

    Log probabilities only decrease, and no hypothesis is longer than the limit and EOS: this bounds the score
    of those that continue.
    """
    unfinished = ranked.totals.masked_fill(ranked.words == EOS, -torch.inf).amax(dim=1)
    bound = unfinished / (beams.limits + 1) ** length_penalty
    return (beams.ended >= beam) | (beams.best >= bound)


def _advance(beams: _Beams, ranked: _Ranked, beam: int) -> _Beams:
    """The `beam` best continuations that are not EOS. Each sees what its parent saw, and its own new word."""
    best = (ranked.words == EOS).int().argsort(dim=1, stable=True)[:, :beam]
    parents = ranked.parents.gather(1, best)
    batch = torch.arange(len(parents), device=parents.device)[:, None]
    itself = torch.eye(beam, dtype=torch.bool, device=parents.device).expand(len(parents), -1, -1)
    words, log_probs = ranked.words.gather(1, best), ranked.log_probs.gather(1, best)
    return replace(
        beams,
        words=torch.cat([beams.words[batch, parents], words[:, :, None]], dim=2),
        log_probs=torch.cat([beams.log_probs[batch, parents], log_probs[:, :, None]], dim=2),
        totals=ranked.totals.gather(1, best),
        visible=torch.cat([beams.visible[batch, parents], itself], dim=2),
    )
