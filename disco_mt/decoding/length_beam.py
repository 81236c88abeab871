"""Length beam: the K most likely lengths of each sentence, decoded in parallel as candidates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.core.special_tokens import EOS, MASK, PAD
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.nn.base import BestWords, ParallelModel
from disco_mt.nn.encoder import Encoded


class Pins(Protocol):
    """Pinned words in the rows of a batch of candidates: implemented by `pins.pinned.Placed`."""

    @property
    def where(self) -> Tensor:
        """(rows, tgt) bool."""
        ...

    @property
    def ids(self) -> Tensor:
        """(rows, tgt): the pinned tokens; meaningless elsewhere."""
        ...

    @property
    def scored(self) -> bool:
        """Does the model score pinned words?"""
        ...

    def rows(self, chosen: Tensor) -> Pins: ...

    def visibility(self, known: Tensor, eos: Tensor, visible: Tensor) -> Tensor:
        """`visible`, changed so that pinned words can be scored."""
        ...

    def keep(self, model: ParallelModel, hidden: Tensor, predicted: BestWords) -> BestWords:
        """The predictions of a pass, with the pins restored."""
        ...


class PinHook(Protocol):
    """The hook through which pins enter decoding: `DecodeRequest.pins` of a decoder (`pins.place.Pinned`)."""

    def candidates(self, model: ParallelModel, encoded: Encoded, options: DecodingOptions) -> Candidates:
        """Length candidates with the pins at their positions."""
        ...

    def passes(self, model: ParallelModel) -> list[int]:
        """Passes needed to place the pins of each sentence."""
        ...


@dataclass(frozen=True)
class Candidates:
    """K candidates for each of B sentences; row b * K + k is candidate k of sentence b.

    `words` and `eos` mark each row's words and its own EOS, at N_k + 1: not at the padded end.
    """

    sentences: Tensor  # (B,) index of each sentence in the caller's batch
    lengths: Tensor  # (B, K) words, most likely first, distinct (and repeated in every copy)
    log_probs: Tensor  # (B, K) log P(length | X)
    words: Tensor  # (B * K, tgt) bool
    eos: Tensor  # (B * K, tgt) bool
    encoded: Encoded  # B * K rows
    pins: Pins | None = None  # None: no words are pinned
    length_penalty: float = 1.0  # alpha; 1: the paper's mean

    @property
    def beam(self) -> int:
        """K."""
        return self.lengths.shape[1]

    def blank(self) -> Tensor:
        """Targets before anything is predicted: pins, masks, EOS, padding. (B * K, tgt)."""
        masked = torch.full(self.words.shape, MASK, device=self.words.device)
        masked = masked.masked_fill(self.eos, EOS).masked_fill(~self.words & ~self.eos, PAD)
        return masked if self.pins is None else torch.where(self.pins.where, self.pins.ids, masked)

    @property
    def free(self) -> Tensor:
        """The words that are not pinned. (B * K, tgt) bool."""
        return self.words if self.pins is None else self.words & ~self.pins.where

    def order(self, log_probs: Tensor) -> Tensor:
        """Ranks by descending probability, pinned words first. (B * K, tgt) -> (B * K, tgt)."""
        pins_first = log_probs.masked_fill(self.words & ~self.free, torch.inf)
        return context.easy_first_order(pins_first, self.words)

    def scores(self, log_probs: Tensor) -> Tensor:
        """Log probability of each candidate, divided by N^alpha. (B * K, tgt) -> (B, K).

        With alpha 1, the mean, short candidates that omit difficult content win too often; a greater alpha
        favours longer ones. Pinned words count where the model can score them (see `predict`). They are
        divided by the same N in all candidates: otherwise an unlikely pinned word would weigh less in a
        longer candidate, and the longest would win.
        """
        free = self._sums(log_probs, self.free) / self._power(self.number_free.clamp(min=1), log_probs)
        if self.pins is None or not self.pins.scored:
            return free
        pinned = self._sums(log_probs, self.words & self.pins.where)
        return free + pinned / self._power(self.lengths[:, :1], log_probs)

    def _power(self, number: Tensor, log_probs: Tensor) -> Tensor:
        """N^alpha, in the precision of the log probabilities."""
        return number.to(log_probs.dtype) ** self.length_penalty

    def _sums(self, log_probs: Tensor, counted: Tensor) -> Tensor:
        """Sums over the words where `counted` is True. (B * K, tgt) -> (B, K)."""
        return log_probs.masked_fill(~counted, 0.0).sum(dim=1).view(-1, self.beam)

    @property
    def number_free(self) -> Tensor:
        """How many words are not pinned. (B, K)."""
        return self.lengths if self.pins is None else self.free.sum(dim=1).view(-1, self.beam)

    def keep(self, sentences: Tensor) -> Candidates:
        """The sentences where `sentences` (B,) is True, and their rows."""
        rows = sentences.repeat_interleave(self.beam).nonzero()[:, 0]
        return self._at(self.sentences[sentences], self.lengths[sentences], self.log_probs[sentences], rows)

    def copied(self, times: int) -> Candidates:
        """Every sentence's candidates, repeated as whole sets."""
        if times == 1:
            return self
        rows = torch.arange(len(self.words), device=self.words.device)
        rows = rows.view(-1, self.beam).repeat(1, times).flatten()
        return self._at(self.sentences, self.lengths.repeat(1, times), self.log_probs.repeat(1, times), rows)

    def _at(self, sentences: Tensor, lengths: Tensor, log_probs: Tensor, rows: Tensor) -> Candidates:
        """The given rows, which belong to these sentences."""
        return replace(
            self,
            sentences=sentences,
            lengths=lengths,
            log_probs=log_probs,
            words=self.words[rows],
            eos=self.eos[rows],
            encoded=self.encoded.rows(rows),
            pins=None if self.pins is None else self.pins.rows(rows),
        )


def best_lengths(length_log_probs: Tensor, beam: int, longest: int) -> tuple[Tensor, Tensor]:
    """The K most likely numbers of words, from 1 to `longest`; ties: the shorter first.

    length_log_probs: (batch, classes), class n is n tokens with EOS. Returns lengths and log-probs, (batch,
    K).
    """
    allowed = length_log_probs[:, 2 : longest + 2]
    ranked = allowed.sort(dim=1, descending=True, stable=True)
    return ranked.indices[:, :beam] + 1, ranked.values[:, :beam]


def candidates_for(
    model: ParallelModel, source: Tensor, options: DecodingOptions, request: DecodeRequest
) -> Candidates:
    """The initial candidates: the K most likely lengths of each sentence, with its pins if there are any."""
    encoded = model.encode(source)
    if request.pins is not None:
        pinned: PinHook = request.pins
        return pinned.candidates(model, encoded, options)
    candidates = length_candidates(model, encoded, options.length_beam)
    return replace(candidates, length_penalty=options.alpha)


def length_candidates(model: ParallelModel, encoded: Encoded, beam: int) -> Candidates:
    if encoded.length_log_probs is None:
        raise TypeError("this model has no length predictor")
    lengths, log_probs = best_lengths(encoded.length_log_probs, beam, model.config.longest_target)
    return candidates_at(encoded, lengths, log_probs)


def candidates_at(encoded: Encoded, lengths: Tensor, log_probs: Tensor) -> Candidates:
    """Candidates at given lengths, (B, K) words each."""
    batch, beam = lengths.shape
    place = torch.arange(int(lengths.max()) + 1, device=lengths.device)
    words = place < lengths.view(-1, 1)
    eos = place == lengths.view(-1, 1)
    sentences = torch.arange(batch, device=lengths.device)
    rows = sentences.repeat_interleave(beam)
    return Candidates(sentences, lengths, log_probs, words, eos, encoded.rows(rows))


def predict(
    model: ParallelModel,
    candidates: Candidates,
    tokens: Tensor,
    visible: Tensor,
    wanted: Tensor | None = None,
) -> BestWords:
    """One pass: the most likely word at every position and its log probability (0 where there is no word).

    Pinned words stay as they are. A DisCo model scores them given all other words, so that the length beam
    can compare how well they fit; a CMLM cannot, so they get probability 1.

    tokens: (rows, tgt); visible: (rows, tgt, tgt); wanted: (rows, tgt) bool, the words to predict
    (None: all of them). Returns (rows, tgt) each.
    """
    if candidates.pins is not None and candidates.pins.scored:
        visible = candidates.pins.visibility(candidates.words & (tokens != MASK), candidates.eos, visible)
    hidden = model.decode(tokens, visible, candidates.encoded)
    wanted = candidates.words if wanted is None else wanted
    best = model.best_words(hidden[wanted])
    ids = candidates.blank().masked_scatter(wanted, best.ids)
    log_probs = torch.zeros(tokens.shape, dtype=best.log_probs.dtype, device=tokens.device)
    predicted = BestWords(ids, log_probs.masked_scatter(wanted, best.log_probs))
    return predicted if candidates.pins is None else candidates.pins.keep(model, hidden, predicted)
