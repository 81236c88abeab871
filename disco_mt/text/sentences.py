"""Paragraphs -> sentences. Models are trained on sentences and translate whole paragraphs badly."""

from __future__ import annotations

from disco_mt.text.lines import well_formed


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of `text` in order, without surrounding white space.

    Abbreviations of the language ("Dr. Smith") do not end a sentence; unknown languages are split like
    English.
    """
    from sentencex import segment  # slow to import, and not needed for files

    stripped = (sentence.strip() for sentence in segment(language, well_formed(text)))
    return [sentence for sentence in stripped if sentence]
