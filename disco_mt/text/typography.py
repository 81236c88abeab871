"""Replaces typographic characters that a vocabulary lacks with plain ones.

OPUS-MT models, for example, were trained on text with straight quotes: a curly apostrophe is <unk> for them.
"""

from __future__ import annotations

from collections.abc import Callable, Container

_PLAIN = {
    "'": "’‘‚‛‹›ʼ′",
    '"': "“”„‟«»″",
    "-": "–—‒―‐‑−",
    " ": "\u00a0\u202f\u2007\u2009\u200a\u2002\u2003\u2004\u2005\u2006\u2008\u205f\u3000",
    "...": "…",
}


def rewrites(known: Container[str], normalise: Callable[[str], str]) -> list[tuple[str, str]]:
    """(character, replacement) for characters that the vocabulary lacks, if it has the replacement.

    known: the characters of the vocabulary, and the space. normalise: the tokenizer's own normalisation.
    """
    replacements: dict[str, str] = {}
    for plain, characters in _PLAIN.items():
        for character in map(normalise, characters):
            if len(character) == 1 and character not in known and all(part in known for part in plain):
                replacements[character] = plain
    return list(replacements.items())
