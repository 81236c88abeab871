"""Where pins go: the lengths that have room for them, and the best positions for those without one.

`Pinned` is the one hook through which pins enter decoding (decoding/length_beam.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from disco_mt.core.special_tokens import PAD
from disco_mt.decoding.length_beam import Candidates, candidates_at, length_candidates
from disco_mt.decoding.options import DecodingOptions
from disco_mt.nn.base import ParallelModel
from disco_mt.nn.encoder import Encoded
from disco_mt.pins.pinned import Neighbours, Placed, TokenPin, possible_lengths, shortest
from disco_mt.pins.score import fit, placing_passes

Places = dict[int, int]
"""Index of a pin -> position of its first token."""


@dataclass(frozen=True)
class Pinned:
    """The pins of a batch of sentences."""

    sentences: tuple[tuple[TokenPin, ...], ...]  # one tuple per sentence; empty where nothing is pinned
    neighbours: Neighbours

    def candidates(self, model: ParallelModel, encoded: Encoded, options: DecodingOptions) -> Candidates:
        """Length candidates with the pins at their positions."""
        beam, alpha = options.length_beam, options.alpha
        if not any(self.sentences):
            return replace(length_candidates(model, encoded, beam), length_penalty=alpha)
        assert encoded.length_log_probs is not None
        longest = model.config.longest_target
        lengths, log_probs = lengths_for(self, encoded.length_log_probs, beam, longest)
        bare = replace(candidates_at(encoded, lengths, log_probs), length_penalty=alpha)
        fixed = [_fixed_places(pins) for pins in self.sentences for _ in range(beam_for(pins, beam, longest))]
        candidates = _with_pins(bare, self, fixed, not model.sees_masks)
        if any(pin.at is None for pins in self.sentences for pin in pins):
            places = _find_places(model, candidates, self, fixed)
            candidates = _with_pins(bare, self, places, not model.sees_masks)
        return candidates

    def passes(self, model: ParallelModel) -> list[int]:
        """Passes needed to place the pins of each sentence."""
        return placing_passes(model, self.sentences)


def beam_for(pins: tuple[TokenPin, ...], beam: int, longest: int) -> int:
    """The number of length candidates, which must be the same for all sentences of a batch."""
    return min(beam, possible_lengths(pins, longest))


def lengths_for(pinned: Pinned, log_probs: Tensor, beam: int, longest: int) -> tuple[Tensor, Tensor]:
    """The most likely lengths with room for the pins: lengths and log-probs, (batch, K) each.

    A length that leaves no other words could win without translating anything. It is used only if it is the
    most likely one (the whole sentence is pinned), or if too few others are left. log_probs: (batch,
    classes), class n is n tokens with EOS.
    """
    sizes = {beam_for(pins, beam, longest) for pins in pinned.sentences}
    if len(sizes) > 1:
        raise ValueError(f"all sentences of a batch must have the same number of lengths, got {sizes}")
    allowed = log_probs[:, 2 : longest + 2]  # (batch, longest): of 1, 2, ... words
    words = torch.arange(1, longest + 1, device=allowed.device)
    least, filled = (
        torch.tensor([count(pins) for pins in pinned.sentences], device=allowed.device)[:, None]
        for count in (shortest, _tokens)
    )
    key = allowed.masked_fill(words < least, -torch.inf)
    most_likely = words == key.argmax(dim=1, keepdim=True) + 1
    key = key.masked_fill((words == filled) & ~most_likely, torch.finfo(key.dtype).min)
    chosen = key.sort(dim=1, descending=True, stable=True).indices[:, : min(sizes)]
    return chosen + 1, allowed.gather(1, chosen)


def _tokens(pins: tuple[TokenPin, ...]) -> int:
    return sum(len(pin.tokens) for pin in pins)


def _fixed_places(pins: tuple[TokenPin, ...]) -> Places:
    return {number: pin.at for number, pin in enumerate(pins) if pin.at is not None}


def _with_pins(candidates: Candidates, pinned: Pinned, places: Sequence[Places], scored: bool) -> Candidates:
    """Candidates with the pins at `places`, one mapping per row."""
    placed = Placed.nowhere(candidates.words, pinned.neighbours, scored)
    lengths = candidates.lengths.view(-1).tolist()
    for row, (length, starts) in enumerate(zip(lengths, places, strict=True)):
        pins = pinned.sentences[row // candidates.beam]
        for number, start in starts.items():
            end = start + len(pins[number].tokens)
            placed.where[row, start:end] = True
            placed.ids[row, start:end] = torch.tensor(pins[number].tokens, device=placed.ids.device)
            placed.before[row, max(0, start - 1) : start] = True
            placed.after[row, end : min(end + 1, length)] |= pins[number].closed
    free = ~placed.where
    return replace(candidates, pins=replace(placed, before=placed.before & free, after=placed.after & free))


def _find_places(
    model: ParallelModel, candidates: Candidates, pinned: Pinned, fixed: Sequence[Places]
) -> list[Places]:
    """The positions of all pins in each row: the fixed ones, and the best ones for the other pins."""
    fits = fit(model, candidates, *_unplaced(pinned, candidates.words.device)).transpose(1, 2)
    assert candidates.pins is not None
    free, lengths = (~candidates.pins.where).tolist(), candidates.lengths.view(-1).tolist()
    places = []
    for row, starts in enumerate(fixed):
        pins = pinned.sentences[row // candidates.beam]
        unplaced = [number for number, pin in enumerate(pins) if pin.at is None]
        widths = [len(pins[number].tokens) for number in unplaced]
        gains = _gains(fits[row], widths, lengths[row])
        chosen = best_places(gains, widths, free[row][: lengths[row]])
        places.append({**starts, **{unplaced[i]: start for i, start in chosen.items()}})
    return places


def _unplaced(pinned: Pinned, device: torch.device) -> tuple[Tensor, Tensor]:
    """The tokens of all pins without a position, and the length of each token's pin: (B, tokens) each."""
    pairs = [
        [(token, len(pin.tokens)) for pin in pins if pin.at is None for token in pin.tokens]
        for pins in pinned.sentences
    ]
    size = max(map(len, pairs))
    padded = torch.tensor([row + [(PAD, 0)] * (size - len(row)) for row in pairs], device=device)
    return padded[..., 0], padded[..., 1]


def _gains(fits: Tensor, widths: Sequence[int], length: int) -> list[list[float]]:
    """gains[i][n]: the gain if pin i starts at n. fits: (tokens, tgt), pin after pin."""
    gains, first = [], 0
    for width in widths:
        starts = length - width + 1
        shifted = [fits[first + j, j : j + starts] for j in range(width)]
        gains.append(torch.stack(shifted).sum(dim=0).tolist())
        first += width
    return gains


def best_places(gains: Sequence[Sequence[float]], widths: Sequence[int], free: Sequence[bool]) -> Places:
    """The positions with the greatest total gain, without overlaps and in any order.

    Exact: best[n] is the best solution for every set of pins (one bit per pin) that fits before position n.
    """
    length, every = len(free), (1 << len(widths)) - 1
    best: list[dict[int, tuple[float, Places]]] = [{} for _ in range(length + 1)]
    best[0][0] = (0.0, {})
    for n in range(length):
        for subset, (total, places) in best[n].items():
            _offer(best[n + 1], subset, total, places)
            for i, width in enumerate(widths):
                if not subset >> i & 1 and n + width <= length and all(free[n : n + width]):
                    _offer(best[n + width], subset | 1 << i, total + gains[i][n], {**places, i: n})
    return best[length][every][1]


def _offer(best: dict[int, tuple[float, Places]], subset: int, total: float, places: Places) -> None:
    if subset not in best or total > best[subset][0]:
        best[subset] = (total, places)
