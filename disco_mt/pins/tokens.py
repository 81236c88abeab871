"""From pins as text to pins as ids."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from disco_mt.core.errors import UserError
from disco_mt.nn.config import ModelConfig
from disco_mt.pins.parse import Pin, may_follow, may_precede
from disco_mt.pins.pinned import Neighbours, TokenPin, pin_problem
from disco_mt.text.tokenizer import Tokenizer

TokenPins = tuple[TokenPin, ...]
"""The pins of one sentence."""


def check_number(pinned: Sequence[Sequence[Pin]], texts: int) -> None:
    """Raise an error if pins are not one list per text."""
    if len(pinned) != texts or any(isinstance(pins, Pin | str) for pins in pinned):
        raise UserError(
            f"pins must be a list of pins for each of the {texts} texts (empty where nothing is pinned), "
            f"got {len(pinned)} entries"
        )


def token_pins(
    pins: Sequence[Pin], sentences: int, target: Tokenizer, config: ModelConfig
) -> list[TokenPins] | str:
    """The pins of each sentence of a text. A string is the reason why they cannot be kept."""
    by_sentence: list[list[TokenPin]] = [[] for _ in range(sentences)]
    for pin in pins:
        if pin.sentence >= sentences:
            return (
                f"pin {pin.text[:80]!r} is for sentence {pin.sentence} (counted from 0), but the text has "
                f"{sentences}"
            )
        ids = pin.ids(target)
        if isinstance(ids, str):
            return ids
        by_sentence[pin.sentence].append(TokenPin(tuple(ids), pin.at, pin.ends_a_word))
    result = [tuple(of_sentence) for of_sentence in by_sentence]
    return next(filter(None, (problem(of_sentence, config) for of_sentence in result)), "") or result


def problem(pins: TokenPins, config: ModelConfig) -> str:
    """Why a model cannot keep these pins; "" if it can."""
    return pin_problem(pins, config.longest_target, config.target_vocabulary) if pins else ""


def neighbours(target: Tokenizer, device: str) -> Neighbours:
    """Which ids of the vocabulary may stand next to a pin."""
    return Neighbours(
        torch.tensor(may_precede(target), device=device), torch.tensor(may_follow(target), device=device)
    )
