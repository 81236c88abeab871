"""Words of a reference as a person might pin them, and what is left of a text without them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from disco_mt.pins.parse import contains, find, words_of

Words = tuple[str, ...]


def drawn_words(reference: str, number: int, key: str) -> Words:
    """So many different words of the reference, at random by `key`; none where no other would be left."""
    words = sorted(set(words_of(reference)))
    return tuple(random.Random(key).sample(words, number)) if len(words) > number else ()


def without(text: str, words: Sequence[str]) -> str:
    """The text with the first of each of the words taken out, where it has them."""
    for word in words:
        start = find(text, word)
        if start >= 0:
            text = " ".join(f"{text[:start]}{text[start + len(word) :]}".split())
    return text


def pasted(text: str, words: Sequence[str], reference: str) -> str:
    """The text with the words that it lacks put in, each about where the reference has it.

    What a person could do without the model; where the reference has them is a help that pins do not get.
    """
    order = words_of(reference)
    for word in words:
        if not contains(text, word):
            there = text.split()
            place = round(order.index(word) / len(order) * len(there))
            text = " ".join([*there[:place], word, *there[place:]])
    return text


def word_matches(texts: Sequence[str], references: Sequence[str]) -> NDArray[np.int64]:
    """(sentences, 3): words that text and reference share, of the text, of the reference; in any order."""
    pairs = [(Counter(words_of(a)), Counter(words_of(b))) for a, b in zip(texts, references, strict=True)]
    return np.array([((a & b).total(), a.total(), b.total()) for a, b in pairs])


def word_f1(matches: NDArray[np.int64]) -> float:
    """Of all words of some sentences, from 0 to 100: as many shared as possible, and none besides."""
    shared, found, wanted = matches.sum(0)
    return float(200 * shared / max(1, found + wanted))
