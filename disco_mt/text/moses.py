"""Text <-> words separated by spaces, as in the paper: Moses tokenisation, and jieba for Chinese.

BPE is then applied to the words. Unlike the default ("raw"), this is not exactly reversible: detokenisation
guesses where the spaces were. "raw", "sentencepiece" and "pretokenized" text is left unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from disco_mt.core.errors import UserError

if TYPE_CHECKING:
    from sacremoses import MosesDetokenizer, MosesTokenizer

Processing = Literal["raw", "moses", "jieba", "sentencepiece", "pretokenized"]
Split = Callable[[Iterable[str], str, Processing], Iterator[str]]
"""`split_words`, or a faster version of it."""

# Han, kana, CJK punctuation and full-width forms: written without spaces.
_CHINESE = (
    "\u2e80-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
)
# jieba splits numbers, prices and words with hyphens; these spaces were not in the text.
_NOT_IN_CHINESE = [
    (re.compile(f" +(?=[{_CHINESE}])|(?<=[{_CHINESE}]) +"), ""),  # next to a Chinese character
    (re.compile(r" +(?=[,.;:!?%)\]}’”])|(?<=[(\[{$€£¥#“‘]) +"), ""),  # before closing, after opening signs
    (re.compile(r"(?<=\d[,.:]) +(?=\d)|(?<=[a-z]\.) +(?=[a-z])"), ""),  # in a number or a host name
    (re.compile(r"(?<=\w) *([-/_'@&+]) *(?=\w)"), r"\1"),  # in a word
]


def to_words(text: str, language: str, processing: Processing) -> str:
    """`text` as words separated by single spaces; raw, sentencepiece and pretokenized text is unchanged."""
    match processing:
        case "moses":
            tokens = _moses_tokenizer(language).tokenize(text, aggressive_dash_splits=True, escape=False)
            return " ".join(tokens)
        case "jieba":
            return " ".join(word for word in _jieba().cut(text) if word.strip())
        case "raw" | "sentencepiece" | "pretokenized":
            return text


def split_words(lines: Iterable[str], language: str, processing: Processing) -> Iterator[str]:
    """`to_words` of many lines, lazily."""
    return (to_words(line, language, processing) for line in lines)


def from_words(words: str, language: str, processing: Processing) -> str:
    """The reverse of `to_words`, as far as possible."""
    match processing:
        case "moses":
            return str(_moses_detokenizer(language).detokenize(words.split(), unescape=False))
        case "jieba":
            for space, replacement in _NOT_IN_CHINESE:
                words = space.sub(replacement, words)
            return words
        case "sentencepiece":
            return words.strip(" ")
        case "raw" | "pretokenized":
            return words


@lru_cache
def _moses_tokenizer(language: str) -> MosesTokenizer:
    from sacremoses import MosesTokenizer

    return MosesTokenizer(lang=language)


@lru_cache
def _moses_detokenizer(language: str) -> MosesDetokenizer:
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(lang=language)


@lru_cache
def _jieba() -> Any:
    try:
        import jieba
    except ImportError as error:
        raise UserError(
            "Chinese words are split by jieba, which is missing: pip install disco-mt[zh]"
        ) from error
    import logging

    jieba.setLogLevel(logging.WARNING)  # else it writes to stderr when it loads its dictionary
    return jieba
