"""Smaller vocabularies for an imported model, for text that does not need all of its pieces.

The pieces that a text uses most are kept with their scores, and so are all single characters of the
vocabulary. Words that lose a piece are segmented into smaller ones; nothing new becomes <unk>.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory
from disco_mt.core.special_tokens import NUM_SPECIAL, UNK
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.directory import CARD, WEIGHTS, Directory, load_tensors, read_config, save_model
from disco_mt.nn.directory import weights as weights_of
from disco_mt.systems.build import build_model, load_weights
from disco_mt.text.lines import read_lines
from disco_mt.text.pair import TextPair
from disco_mt.text.sentencepiece import SPACE, UNREACHABLE, restricted
from disco_mt.text.tokenizer import Tokenizer

SHARES = (0.99, 0.995, 0.999)
MOST_UNKNOWN = 0.01  # of the characters of the text
_CHUNK = 10_000  # lines per batch

Counts = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class SideReport:
    """One side's vocabulary before and after, measured on the text given for it."""

    size_before: int
    size: int
    single_characters: int
    tokens: int
    words: int
    pieces_used: int
    pieces_for_99: int
    """The most frequent pieces that make up 99 % of the tokens."""
    pieces_for_99_5: int
    pieces_for_99_9: int
    tokens_kept: float
    """Share of the tokens that are still a single piece."""
    pieces_per_word_before: float
    pieces_per_word: float
    unknown_characters: float
    """Share of the characters that are not in the model at all."""


@dataclass(frozen=True)
class PruneReport:
    source: SideReport
    target: SideReport


def prune_vocabulary(
    model: Path,
    source: Sequence[Path],
    target: Sequence[Path],
    out: Path,
    source_size: int = 0,
    target_size: int = 0,
) -> PruneReport:
    """Write a copy of a model with fewer pieces. source_size, target_size: 0 keeps all pieces that are used.

    source, target: files of text, one sentence per line, plain or .gz.
    """
    directory = read_config(model)
    text = TextPair.load(model, directory.text)
    _check_model(directory, text)
    kept_source, source_report = _prune(text.source, source, source_size, "source")
    kept_target, target_report = _prune(text.target, target, target_size, "target")
    pruned = _pruned_model(load_weights(directory), kept_source, kept_target)
    report = PruneReport(source_report, target_report)
    small = TextPair(
        _restricted(text.source, kept_source), _restricted(text.target, kept_target), joint=False
    )
    with atomic_directory(out) as folder:
        description = small.save(folder)
        extra = {**directory.extra, "pruned": asdict(report)}
        save_model(folder, pruned, description, _card(model, report), extra, _precision(model))
    return report


def _check_model(directory: Directory, text: TextPair) -> None:
    for side, tokenizer in (("source", text.source), ("target", text.target)):
        if tokenizer.processing != "sentencepiece":
            raise UserError(
                f"{directory.path}: the {side} vocabulary is not one of SentencePiece (it is of kind "
                f"'{tokenizer.processing}'); only imported SentencePiece models can be pruned"
            )
    if text.joint or directory.model.tying == "all":
        raise UserError(f"{directory.path}: a joint vocabulary of source and target cannot be pruned")


# Pieces


@dataclass(frozen=True)
class _Counted:
    """Counts over a segmented text."""

    pieces: Counts  # how often each id occurs
    words: int
    characters: int
    unknown: int  # characters


def _prune(tokenizer: Tokenizer, files: Sequence[Path], size: int, side: str) -> tuple[list[int], SideReport]:
    """The ids to keep, in order, and statistics of the text."""
    counted = _count(tokenizer, files)
    _check_text(counted, files, side)
    tokens = tokenizer.tokens(range(tokenizer.vocabulary_size))
    kept = _choose(counted.pieces, tokens, size, side)
    after = _count(_restricted(tokenizer, kept), files)
    return kept, _report(tokens, kept, counted, after)


def _count(tokenizer: Tokenizer, files: Sequence[Path]) -> _Counted:
    pieces = np.zeros(tokenizer.vocabulary_size, dtype=np.int64)
    words = characters = unknown = 0
    remaining = _lines(files)
    while lines := list(islice(remaining, _CHUNK)):
        encoded = tokenizer.encode_batch(lines)
        pieces += np.bincount(np.fromiter(chain.from_iterable(encoded), np.int64), minlength=len(pieces))
        words += sum(len(line.split()) for line in lines)
        characters += sum(len(line) - line.count(" ") for line in lines)
        doubtful = (line for line, ids in zip(lines, encoded, strict=True) if UNK in ids)
        unknown += sum(end - start for line in doubtful for start, end in tokenizer.unknown_spans(line))
    return _Counted(pieces, words, characters, unknown)


def _lines(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        yield from read_lines(file)


def _check_text(counted: _Counted, files: Sequence[Path], side: str) -> None:
    names = ", ".join(file.name for file in files)
    if not counted.words:
        raise UserError(f"the {side} text ({names or 'no files'}) is empty; give text with --{side}")
    if counted.unknown > MOST_UNKNOWN * counted.characters:
        raise UserError(
            f"the model does not know {counted.unknown} of the {counted.characters} characters of the {side} "
            f"text ({names}): a pruned vocabulary would be without the letters of the text; is it in the "
            f"{side} language of the model?"
        )


def _choose(counts: Counts, tokens: list[str], size: int, side: str) -> list[int]:
    """Special tokens, all characters, and the most frequent other pieces; ties: the more likely piece."""
    always = {*range(NUM_SPECIAL), *_needed(tokens)}
    if 0 < size < len(always):
        raise UserError(
            f"--{side}-size must be at least {len(always)} ({NUM_SPECIAL} special tokens and "
            f"{len(always) - NUM_SPECIAL} single characters), got {size}"
        )
    by_count = np.argsort(-counts, kind="stable").tolist()
    frequent = [index for index in by_count if counts[index] and index not in always]
    room = size - len(always) if size else len(frequent)
    return sorted(always.union(frequent[:room]))


def _needed(tokens: list[str]) -> Iterator[int]:
    """Single characters, with and without a space before them; and pieces with characters without a piece."""
    single = {token for token in tokens[NUM_SPECIAL:] if len(token) == 1} | {SPACE}
    for index, token in enumerate(tokens):
        reachable = index >= NUM_SPECIAL and not token.startswith(UNREACHABLE)
        if reachable and (len(token.removeprefix(SPACE)) <= 1 or not single.issuperset(token)):
            yield index


def _report(tokens: list[str], kept: list[int], before: _Counted, after: _Counted) -> SideReport:
    counts = before.pieces
    cumulated = np.sort(counts)[::-1].cumsum()
    total = int(cumulated[-1])
    needed = [int(np.searchsorted(cumulated, share * total)) + 1 for share in SHARES]
    return SideReport(
        size_before=len(tokens),
        size=len(kept),
        single_characters=sum(1 for _ in _needed(tokens)),
        tokens=total,
        words=before.words,
        pieces_used=int(np.count_nonzero(counts)),
        pieces_for_99=needed[0],
        pieces_for_99_5=needed[1],
        pieces_for_99_9=needed[2],
        tokens_kept=round(int(counts[kept].sum()) / total, 6),
        pieces_per_word_before=round(total / before.words, 4),
        pieces_per_word=round(int(after.pieces.sum()) / before.words, 4),
        unknown_characters=round(before.unknown / max(1, before.characters), 6),
    )


def _restricted(tokenizer: Tokenizer, kept: list[int]) -> Tokenizer:
    return replace(tokenizer, backend=restricted(tokenizer.backend, kept))


# The model


def _pruned_model(model: TranslationModel, source: list[int], target: list[int]) -> TranslationModel:
    rows = {
        "encoder.words.weight": source,
        "words.weight": target,
        "output.weight": target,
        "output_bias": target,
    }
    config: ModelConfig = replace(model.config, source_vocabulary=len(source), target_vocabulary=len(target))
    small = build_model(config)
    tensors = weights_of(model)
    cut = {name: tensor[rows[name]] if name in rows else tensor for name, tensor in tensors.items()}
    load_tensors(small, cut, Path(WEIGHTS))
    return small


def _precision(model: Path) -> torch.dtype:
    """The precision in which the model's weights are stored."""
    with safe_open(model / WEIGHTS, framework="pt") as file:
        dtype: Any = file.get_tensor(next(iter(file.keys()))).dtype
    return dtype if dtype in (torch.float16, torch.bfloat16) else torch.float32


def _card(model: Path, report: PruneReport) -> str:
    card = model / CARD
    before = card.read_text(encoding="utf-8") if card.is_file() else "# A pruned model\n"
    sides = [
        f"- {side}: {found.size} of {found.size_before} entries; {100 * found.tokens_kept:.2f} % of the "
        f"text's tokens unchanged; {found.pieces_per_word:.3f} pieces per word instead of "
        f"{found.pieces_per_word_before:.3f}"
        for side, found in (("source", report.source), ("target", report.target))
    ]
    return "\n".join([before, "Vocabularies pruned by `disco prune-vocabulary`:", "", *sides]) + "\n"
