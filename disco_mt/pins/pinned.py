"""Pinned words in decoding: tokens that are observed from the first pass on and never change.

DisCo predicts any word from any subset of the others, so pinned words are simply observed by all others.
place.py finds lengths that have room for them, and positions for those without one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.nn.base import BestWords, ParallelModel

MOST_UNPLACED = 6  # pins per sentence without a position: all their orders are tried


@dataclass(frozen=True)
class TokenPin:
    """A pinned word or phrase as ids."""

    tokens: tuple[int, ...]
    at: int | None = None  # position of its first token, from 0; None: where the model scores it best
    closed: bool = True  # ends in a whole word, which the next token must not continue (see Neighbours)

    @property
    def end(self) -> int:
        """The position after it; 0 for a pin without a position."""
        return 0 if self.at is None else self.at + len(self.tokens)


@dataclass(frozen=True)
class Neighbours:
    """Which tokens may stand next to a pin, so that its words stay whole. (vocabulary,) bool."""

    before: Tensor
    after: Tensor


def pin_problem(pins: tuple[TokenPin, ...], longest: int, vocabulary: int) -> str:
    """Why a target of at most `longest` words cannot contain the pins; "" if it can."""
    placed = sorted((pin for pin in pins if pin.at is not None), key=lambda pin: pin.at or 0)
    unplaced = len(pins) - len(placed)
    for pin in pins:
        if not pin.tokens or not all(NUM_SPECIAL <= token < vocabulary for token in pin.tokens):
            return "a pin must have at least one token, and only words of the vocabulary"
        if pin.at is not None and not 0 <= pin.at <= longest - len(pin.tokens):
            return (
                f"a pin of {len(pin.tokens)} tokens at {pin.at} does not fit: the model writes at most "
                f"{longest} tokens; the latest place is {longest - len(pin.tokens)}, and without one it goes "
                "where it fits best"
            )
    for one, other in pairwise(placed):
        if one.end > (other.at or 0):
            return (
                f"two pins overlap: one fills tokens {one.at} to {one.end - 1}, one begins at {other.at}; "
                "move one, or leave out its place"
            )
    if unplaced > MOST_UNPLACED:
        return (
            f"at most {MOST_UNPLACED} pins may be without a place, got {unplaced}; give places to the others"
        )
    if (needed := shortest(pins)) > longest:
        return f"the pins need {needed} tokens, but the model writes at most {longest}"
    return ""


def shortest(pins: tuple[TokenPin, ...]) -> int:
    """The fewest words of a target with all pins, those without a position in the gaps between the others.

    ends[s]: the earliest end of the subset s of them, in any order; one bit per pin.
    """
    taken = {n for pin in pins if pin.at is not None for n in range(pin.at, pin.end)}
    widths = [len(pin.tokens) for pin in pins if pin.at is None]
    ends = {0: 0}
    for subset in range(1 << len(widths)):
        for i, width in enumerate(widths):
            if not subset >> i & 1:
                end = _first_gap(ends[subset], width, taken) + width
                larger = subset | 1 << i
                ends[larger] = min(end, ends.get(larger, end))
    return max(1, ends[(1 << len(widths)) - 1], *(pin.end for pin in pins))


def possible_lengths(pins: tuple[TokenPin, ...], longest: int) -> int:
    """How many lengths have room for the pins."""
    return longest - shortest(pins) + 1


def _first_gap(start: int, width: int, taken: set[int]) -> int:
    while any(n in taken for n in range(start, start + width)):
        start += 1
    return start


@dataclass(frozen=True)
class Placed:
    """Pins in the rows of a batch of candidates. Tensors are (rows, tgt)."""

    where: Tensor  # bool
    ids: Tensor  # the pinned tokens; meaningless elsewhere
    before: Tensor  # bool: directly before a pin, and not pinned
    after: Tensor  # bool: directly after a pin, and not pinned
    neighbours: Neighbours
    scored: bool  # does the model score pinned words? Not in a CMLM, where they see themselves

    @staticmethod
    def nowhere(words: Tensor, neighbours: Neighbours, scored: bool) -> Placed:
        """Rows without pins; words: (rows, tgt)."""
        where, before, after = (torch.zeros_like(words) for _ in range(3))
        ids = torch.zeros_like(words, dtype=torch.long)
        return Placed(where, ids, before, after, neighbours, scored)

    def rows(self, chosen: Tensor) -> Placed:
        return replace(
            self,
            where=self.where[chosen],
            ids=self.ids[chosen],
            before=self.before[chosen],
            after=self.after[chosen],
        )

    def keep(self, model: ParallelModel, hidden: Tensor, predicted: BestWords) -> BestWords:
        """The predictions of a pass, with the pins restored and allowed neighbours.

        hidden: (rows, tgt, width). Probabilities of neighbours are over the whole vocabulary.
        """
        ids, log_probs = predicted
        beside = self.before | self.after
        if beside.any():
            best = model.best_words(hidden[beside], self._allowed(beside))
            ids = ids.masked_scatter(beside, best.ids)
            log_probs = log_probs.masked_scatter(beside, best.log_probs)
        of_pins = torch.zeros_like(log_probs[self.where])
        if self.scored:
            of_pins = model.word_log_probs(hidden[self.where], self.ids[self.where])
        ids = torch.where(self.where, self.ids, ids)
        return BestWords(ids, log_probs.masked_scatter(self.where, of_pins))

    def visibility(self, known: Tensor, eos: Tensor, visible: Tensor) -> Tensor:
        """`visible`, but pinned positions see all known words except themselves. known: (rows, tgt)."""
        itself = torch.eye(known.shape[1], dtype=torch.bool, device=known.device)
        others = (known[:, None, :] & ~itself) | eos[:, None, :]
        return torch.where(self.where[:, :, None], others, visible)

    def _allowed(self, beside: Tensor) -> Tensor:
        """(neighbours, vocabulary) bool."""
        before, after = self.before[beside][:, None], self.after[beside][:, None]
        return (self.neighbours.before | ~before) & (self.neighbours.after | ~after)
