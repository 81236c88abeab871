"""The two tokenizers of a translation direction, and their files in a directory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

from disco_mt.core.errors import UserError
from disco_mt.core.files import sha256
from disco_mt.text.languages import is_chinese
from disco_mt.text.moses import Processing, Split, split_words
from disco_mt.text.tokenizer import Tokenizer, learn

Vocabulary = Literal["joint", "separate"]


@dataclass(frozen=True)
class VocabularyOptions:
    languages: tuple[str, str]  # source and target
    size: int  # of each vocabulary, special tokens included
    joint: bool = True  # one for both languages, or one for each
    processing: Processing = "raw"


@dataclass(frozen=True)
class TextPair:
    """Source and target tokenizer. With a joint vocabulary they share ids, but have different languages."""

    source: Tokenizer
    target: Tokenizer
    joint: bool

    @staticmethod
    def train(
        source_lines: Iterable[str],
        target_lines: Iterable[str],
        options: VocabularyOptions,
        split: Split = split_words,
    ) -> TextPair:
        """Learn one vocabulary for both sides, or one for each."""
        source_language, target_language = options.languages
        source_processing = processing_for(source_language, options.processing)
        target_processing = processing_for(target_language, options.processing)
        source_words = split(source_lines, source_language, source_processing)
        target_words = split(target_lines, target_language, target_processing)
        if options.joint:
            source_backend = learn(chain(source_words, target_words), options.size, options.processing)
            target_backend = source_backend
        else:
            source_backend = learn(source_words, options.size, options.processing)
            target_backend = learn(target_words, options.size, options.processing)
        return TextPair(
            Tokenizer(source_backend, source_language, source_processing),
            Tokenizer(target_backend, target_language, target_processing),
            joint=options.joint,
        )

    def vocabularies(self) -> tuple[list[str], list[str]]:
        """The tokens of source and target, by id."""
        source, target = (side.tokens(range(side.vocabulary_size)) for side in (self.source, self.target))
        return source, target

    def save(self, directory: Path) -> dict[str, Any]:
        """Write the vocabularies to `directory`; returns the description that `load` needs."""
        source = directory / ("tokenizer.json" if self.joint else "tokenizer.source.json")
        target = directory / ("tokenizer.json" if self.joint else "tokenizer.target.json")
        return {
            "joint": self.joint,
            "source": _save(self.source, source),
            "target": _save(self.target, target),
        }

    @staticmethod
    def load(directory: Path, description: dict[str, Any]) -> TextPair:
        """Load the tokenizers of `directory`; other files than those described are errors."""
        try:
            joint = bool(description["joint"])
            source = _load(directory, description["source"])
            target = _load(directory, description["target"])
        except (KeyError, TypeError) as error:
            raise UserError(
                f'{directory}: the description of the text ("text") is incomplete: {error}'
            ) from error
        if joint:
            target = Tokenizer(source.backend, target.language, target.processing)
        return TextPair(source, target, joint)


def processing_for(language: str, processing: Processing) -> Processing:
    """The paper's processing: Moses, but jieba for Chinese."""
    return "jieba" if processing == "moses" and is_chinese(language) else processing


def _save(tokenizer: Tokenizer, path: Path) -> dict[str, Any]:
    tokenizer.save(path)
    return {
        "language": tokenizer.language,
        "processing": tokenizer.processing,
        "file": path.name,
        "sha256": sha256(path),
    }


def _load(directory: Path, description: dict[str, Any]) -> Tokenizer:
    path = directory / Path(description["file"]).name  # a description must not point outside its directory
    processing = description["processing"]
    if processing not in get_args(Processing):
        raise UserError(
            f"{directory}: processing must be one of {', '.join(get_args(Processing))}, got {processing!r}"
        )
    if not path.is_file():
        raise UserError(f"{path} is missing; {directory} is incomplete")
    actual = sha256(path)
    if actual != description["sha256"]:
        raise UserError(
            f"the tokenizer {path} does not belong to these weights or data: its SHA-256 should be "
            f"{description['sha256']}, found {actual}; restore the file that came with {directory}"
        )
    return Tokenizer.load(path, description["language"], processing)
