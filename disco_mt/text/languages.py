"""Language codes: Chinese is zh, zh-Hans, zh_TW, cmn, zho or chi."""

from __future__ import annotations

import re

_SHORT = {"cmn": "zh", "zho": "zh", "chi": "zh", "jpn": "ja", "tha": "th"}
_SPACELESS = {"zh", "ja", "th"}


def base_language(code: str) -> str:
    """The language of a code, without script and region; two letters for the languages treated specially."""
    base = re.split("[-_]", code.lower())[0]
    return _SHORT.get(base, base)


def is_chinese(code: str) -> bool:
    """Of any script and region."""
    return base_language(code) == "zh"


def is_spaceless(code: str) -> bool:
    """Is the language written without spaces between words?"""
    return base_language(code) in _SPACELESS
