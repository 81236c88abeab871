"""Pinned words as decoders know them: tokens that are observed from the first pass on and never change.

DisCo predicts any word from any subset of the others, so words that a person has fixed are simply observed by
all others; place.py finds the lengths that can hold them, and places for those that have none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.nn.base import BestWords, ParallelModel

MOST_UNPLACED = 6  # pins without a place in one sentence: their best places are found by trying all orders


@dataclass(frozen=True)
class TokenPin:
    """A pinned word or phrase as ids."""

    tokens: tuple[int, ...]
    at: int | None = None  # position of its first token, from 0; None: where the model likes it best
    closed: bool = True  # it is whole words: its neighbours must not make them longer (see Neighbours)

    @property
    def end(self) -> int:
        """The position behind it; 0 for a pin without a place."""
        return 0 if self.at is None else self.at + len(self.tokens)


@dataclass(frozen=True)
class Neighbours:
    """Which tokens may stand directly beside a pin, so that its words stay whole. (vocabulary,) bool."""

    before: Tensor
    after: Tensor


def pin_problem(pins: tuple[TokenPin, ...], longest: int, vocabulary: int) -> str:
    """Why a target of at most `longest` words cannot hold the pins; "" if it can."""
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
    """The fewest words of a target that holds all pins, those without a place in the gaps between the others.

    ends[s]: the earliest end of the subset s of them, whatever their order; a bit each.
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
    """How many lengths can hold the pins."""
    return longest - shortest(pins) + 1


def _first_gap(start: int, width: int, taken: set[int]) -> int:
    while any(n in taken for n in range(start, start + width)):
        start += 1
    return start


@dataclass(frozen=True)
class Placed:
    """Pins in the rows of a batch of candidates. Tensors are (rows, tgt)."""

    where: Tensor  # bool
    ids: Tensor  # the pinned tokens; elsewhere of no meaning
    before: Tensor  # bool: stands directly before a pin, and is none
    after: Tensor  # bool: stands directly after a pin, and is none
    neighbours: Neighbours
    scored: bool  # do pinned words have a probability of their own? Not in a CMLM, where they see themselves

    @staticmethod
    def nowhere(words: Tensor, neighbours: Neighbours, scored: bool) -> Placed:
        """Rows without pins; words: (rows, tgt)."""
        where, before, after = (torch.zeros_like(words) for _ in range(3))
        ids = torch.zeros_like(words, dtype=torch.long)
        return Placed(where, ids, before, after, neighbours, scored)

    def rows(self, chosen: Tensor) -> Placed:
        """Some of the rows."""
        return replace(
            self,
            where=self.where[chosen],
            ids=self.ids[chosen],
            before=self.before[chosen],
            after=self.after[chosen],
        )

    def keep(self, model: ParallelModel, hidden: Tensor, found: BestWords) -> BestWords:
        """A pass's predictions with the pins in their places, and fitting neighbours.

        hidden: (rows, tgt, width). A neighbour has the model's own probability, not one among the allowed.
        """
        ids, log_probs = found.ids, found.log_probs
        beside = self.before | self.after
        if beside.any():
            allowed = self._allowed(beside)
            best = model.best_words(hidden[beside], allowed)
            ids = ids.masked_scatter(beside, best.ids)
            log_probs = log_probs.masked_scatter(beside, best.log_probs)
        own = torch.zeros_like(log_probs[self.where])
        if self.scored:
            own = model.word_log_probs(hidden[self.where], self.ids[self.where])
        return BestWords(torch.where(self.where, self.ids, ids), log_probs.masked_scatter(self.where, own))

    def visibility(self, known: Tensor, eos: Tensor, visible: Tensor) -> Tensor:
        """`visible`, but a pinned position sees all known words except itself. known: (rows, tgt)."""
        itself = torch.eye(known.shape[1], dtype=torch.bool, device=known.device)
        others = (known[:, None, :] & ~itself) | eos[:, None, :]
        return torch.where(self.where[:, :, None], others, visible)

    def _allowed(self, beside: Tensor) -> Tensor:
        """(neighbours, vocabulary) bool."""
        before, after = self.before[beside][:, None], self.after[beside][:, None]
        return (self.neighbours.before | ~before) & (self.neighbours.after | ~after)
