"""Paragraph -> sentences. Models are trained on sentences; a paragraph given whole is translated badly."""

from __future__ import annotations

from disco_mt.text.lines import well_formed


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of `text` in order, without outer white space. Text of white space only has none.

    Abbreviations of the language do not end a sentence ("Dr. Smith"); an unknown language is split by the
    rules of English.
    """
    from sentencex import segment  # slow to import, and not needed for files

    stripped = (sentence.strip() for sentence in segment(language, well_formed(text)))
    return [sentence for sentence in stripped if sentence]
