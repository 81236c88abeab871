"""Which of a few languages is it? By script, by small words, by letters that only one of them has.

No learnt model: enough to tell apart the languages that a server has models for, and honest where it cannot.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_SMALL_WORDS = {
    "en": "the of and to in is that it for was on with as you he she be at this have are not we they i a",
    "de": "der die und das ist in den nicht ein zu es ich sie mit auf für eine dem im von war wir er auch",
    "fr": "le la les de des et est un une du que dans pour pas il elle sur au ce qui avec je vous nous à",
    "es": "el la los las de que y en un una es no se por con para su lo como está del al yo muy",
    "it": "il lo la gli di che è e un una non per in con sono del della si mi ho al questo",
    "nl": "de het een en van is dat niet op te in zijn voor met ik die er aan wij maar ook",
    "pt": "o a os as de que e do da em um uma é não para com se no na por eu você muito",
    "ro": "și de la în nu este a cu pe care un o să mai din că sunt ai fost pentru lui",
}
_LETTERS = {"de": "äöüß", "fr": "çèêàùœ", "es": "ñ¿¡", "pt": "ãõ", "ro": "ăâîșțşţ", "it": "òì"}
_SCRIPTS = {
    "CJK": ("zh", "ja"),
    "HIRAGANA": ("ja",),
    "KATAKANA": ("ja",),
    "HANGUL": ("ko",),
    "CYRILLIC": ("ru", "uk", "bg"),
    "GREEK": ("el",),
    "ARABIC": ("ar", "fa"),
    "HEBREW": ("he",),
    "THAI": ("th",),
    "DEVANAGARI": ("hi",),
}
_NOT_LATIN = {code for codes in _SCRIPTS.values() for code in codes}
_READ = 1_000  # characters: more do not change the answer


def detect(text: str, languages: Iterable[str]) -> list[tuple[str, float]]:
    """(language, confidence from 0 to 100), best first. Confidence 0: nothing speaks for it."""
    words = re.findall(r"[^\W\d_]+", text[:_READ].lower())
    points = {language: _points(words, language.split("-")[0].lower()) for language in languages}
    total = sum(points.values())
    if not total:
        return [(language, 0.0) for language in points]
    # Little evidence is little confidence, even where all of it speaks for one language.
    weight = 100 * min(1.0, max(points.values()) / 3)
    found = [(language, round(weight * point / total, 1)) for language, point in points.items()]
    return sorted(found, key=lambda pair: -pair[1])


def _points(words: list[str], language: str) -> float:
    """How much speaks for a language: a point a small word or special letter, and one for its script."""
    small, letters = _SMALL_WORDS.get(language, "").split(), _LETTERS.get(language, "")
    points = float(sum((word in small) + any(letter in letters for letter in word) for word in words))
    characters = [character for word in words for character in word]
    script = sum(_in_script(character, language) for character in characters)
    if language in _NOT_LATIN:
        points += 5 * script / max(1, len(characters))
    elif language not in _SMALL_WORDS:
        points += 0.1 * script / max(1, len(characters))  # Latin letters say little
    return points


def _in_script(character: str, language: str) -> bool:
    name = unicodedata.name(character, "").split(" ")[0]
    if name == "LATIN":
        return language not in _NOT_LATIN
    return language in _SCRIPTS.get(name, ())
