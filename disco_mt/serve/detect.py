"""Which of a few languages is a text written in? By py3langid, which is loaded when it is first needed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from disco_mt.text.languages import base_language

_READ = 1_000  # characters: more do not change the answer


def detect(text: str, languages: Iterable[str]) -> list[tuple[str, float]]:
    """(language, confidence from 0 to 100), best first. All 0: there is no letter, or none of them fits."""
    text = text[:_READ]
    ranks = dict(_identifier().rank(text)) if any(map(str.isalpha, text)) else {}
    scores = {language: float(ranks.get(base_language(language), 0.0)) for language in languages}
    total = sum(scores.values()) or 1.0
    confidences = [(language, round(100 * score / total, 1)) for language, score in scores.items()]
    return sorted(confidences, key=lambda pair: -pair[1])


@cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
