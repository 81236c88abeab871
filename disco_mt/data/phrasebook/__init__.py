"""The phrasebook: an English-German corpus made by a small grammar, all translations of a sentence known.

It is multimodal on purpose. Most sentences have several translations that differ in many words at once (du,
ihr or Sie; synonyms of another gender; word order), so a model that chooses its words independently of one
another mixes them up.
"""

from disco_mt.data.phrasebook.corpus import Phrase, Phrasebook, phrasebook, write_phrasebook

__all__ = ["Phrase", "Phrasebook", "phrasebook", "write_phrasebook"]
