"""Parallel text files -> a dataset directory (dataset.py says what is in it).

The corpus streams through: files are checked and counted, then a vocabulary is learnt, then the lines are
encoded chunk by chunk, so that memory does not grow with the corpus. Work on lines is shared out over the
cores; the files are the same on any number of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, get_args

from disco_mt.core.errors import UserError
from disco_mt.core.files import atomic_directory, refuse_existing, sha256, write_text
from disco_mt.core.machine import cores
from disco_mt.core.progress import Advance, stage
from disco_mt.core.settings import at_least
from disco_mt.data.dataset import FORMAT_VERSION, id_type, read_description
from disco_mt.data.encode import Limits, SplitReport, chunks, write_split
from disco_mt.data.parallel import ordered_map
from disco_mt.text.lines import read_lines
from disco_mt.text.moses import Processing, split_words
from disco_mt.text.pair import TextPair, Vocabulary, VocabularyOptions
from disco_mt.text.tokenizer import Tokenizer

SAMPLE = 500_000  # lines of each side from which a vocabulary is learnt, at most: bounds memory and time
LARGE = 20_000_000  # bytes of training text: below, starting processes takes longer than they save
UNSPACED = 15  # characters per word, on average: text without spaces between words, such as Chinese

PrepareProcessing = Literal["raw", "moses", "pretokenized"]


@dataclass(frozen=True)
class PrepareOptions:
    """Which files make a dataset, and how. Every file is UTF-8 text, one sentence per line, plain or .gz."""

    source: Path  # training sentences
    target: Path  # their translations, line by line
    out: Path  # the dataset directory to make
    source_language: str  # such as en
    target_language: str  # such as de
    valid_source: Path | None = None
    valid_target: Path | None = None
    valid_references: Path | None = None  # all translations of each sentence, tab-separated
    test_source: Path | None = None
    test_target: Path | None = None
    test_references: Path | None = None
    vocabulary: Vocabulary = "joint"  # one of both languages together, or one of each
    vocabulary_size: int = 32_000  # of each vocabulary, special tokens included; a small corpus may give less
    processing: PrepareProcessing = "raw"  # moses: the paper's way, with jieba for Chinese
    tokenizers: Path | None = None  # a dataset or model directory whose tokenizers are used; none are learnt
    max_length: int = Limits.max_length  # tokens; longer training pairs are dropped
    max_ratio: float = Limits.max_ratio  # training pairs whose sides differ more in length are dropped
    jobs: int = 0  # processes side by side; 0: one per core, if the corpus is large enough

    @property
    def limits(self) -> Limits:
        """Which training pairs are kept."""
        return Limits(self.max_length, self.max_ratio)


@dataclass(frozen=True)
class PrepareReport:
    """What `prepare` made."""

    out: Path
    source_vocabulary_size: int
    target_vocabulary_size: int
    joint: bool
    splits: dict[str, SplitReport]


@dataclass(frozen=True)
class _Corpus:
    """The files of a split, with their number of lines, which has been found to be the same."""

    name: str
    source: Path
    target: Path
    references: Path | None
    lines: int

    def pairs(self) -> Iterator[tuple[str, str]]:
        return zip(read_lines(self.source), read_lines(self.target), strict=True)


def prepare(options: PrepareOptions, quiet: bool = False) -> PrepareReport:
    """Make the dataset directory `options.out`: all of it, or (on any error) nothing."""
    refuse_existing(options.out)
    _check(options)
    jobs = options.jobs or _jobs(options)
    corpora = _count(options, jobs, quiet)
    text = _text(options, corpora[0], jobs, quiet)
    try:
        with atomic_directory(options.out) as directory:
            splits = {
                corpus.name: _write(directory, corpus, text, options, jobs, quiet) for corpus in corpora
            }
            _refuse_empty(splits["train"])
            _describe(directory, text, splits, options.limits)
    except OSError as error:
        raise UserError(f"cannot write {options.out}: {error.strerror or error}") from error
    sizes = text.source.vocabulary_size, text.target.vocabulary_size
    return PrepareReport(options.out, *sizes, text.joint, splits)


def _check(options: PrepareOptions) -> None:
    """Mistakes that can be seen before a file is opened."""
    _one_of("vocabulary", options.vocabulary, get_args(Vocabulary))
    _one_of("processing", options.processing, get_args(PrepareProcessing))
    if options.max_length < 1:
        raise UserError(f"max_length must be at least 1, got {options.max_length}")
    if options.max_ratio < 1:
        raise UserError(f"max_ratio must be at least 1, got {options.max_ratio}")
    at_least("jobs", options.jobs, 0)
    for name in ("source_language", "target_language"):
        if not getattr(options, name).strip():
            raise UserError(f"{name} must be a language code such as en, got {getattr(options, name)!r}")
    for split in ("valid", "test"):
        source, target, references = _held_out(options, split)
        if (source is None) != (target is None):
            raise UserError(f"{split}_source and {split}_target go together; one of them is missing")
        if references and not source:
            raise UserError(f"{split}_references needs {split}_source and {split}_target")


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UserError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def _held_out(options: PrepareOptions, split: str) -> tuple[Path | None, Path | None, Path | None]:
    if split == "valid":
        return options.valid_source, options.valid_target, options.valid_references
    return options.test_source, options.test_target, options.test_references


def _jobs(options: PrepareOptions) -> int:
    """As many processes as are worth it. A file that cannot be read is named later."""
    files = [path for path in (options.source, options.target) if path.is_file()]
    return cores() if sum(path.stat().st_size for path in files) >= LARGE else 1


def _count(options: PrepareOptions, jobs: int, quiet: bool) -> list[_Corpus]:
    """Read every file once, so that a mistake in any of them is found before the work begins."""
    named: list[tuple[str, Path, Path, Path | None]] = [("train", options.source, options.target, None)]
    for split in ("valid", "test"):
        source, target, references = _held_out(options, split)
        if source and target:
            named.append((split, source, target, references))
    files = [path for _, *paths in named for path in paths if path]
    counted = ordered_map(_count_lines, files, min(jobs, len(files)))
    with stage("checking files", len(files), quiet) as advance, closing(counted):
        return [
            _Corpus(
                name,
                source,
                target,
                references,
                _common_lines([source, target, references], counted, advance),
            )
            for name, source, target, references in named
        ]


def _count_lines(path: Path) -> int:
    if path.exists() and not path.is_file():
        raise UserError(f"cannot read {path}: it must be a file, as it is read more than once")
    return sum(1 for _ in read_lines(path))


def _common_lines(paths: list[Path | None], counted: Iterator[int], advance: Advance) -> int:
    """The number of lines that all these files have; `counted` gives that of one after the other."""
    counts: dict[Path, int] = {}
    for path in filter(None, paths):
        counts[path] = next(counted)
        advance(1)
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{path} has {count:,}" for path, count in counts.items())
        raise UserError(f"parallel files must have the same number of lines: {found}")
    return next(iter(counts.values()))


def _text(options: PrepareOptions, corpus: _Corpus, jobs: int, quiet: bool) -> TextPair:
    """The tokenizers: those that were asked for, or new ones learnt from the training pairs."""
    if options.tokenizers:
        return _reuse(options.tokenizers, options.source_language, options.target_language)
    paths, split = (corpus.source, corpus.target), options.processing not in ("raw", "pretokenized")
    sampled = sum(_sample_size(path, corpus.lines, split) for path in paths)
    with stage("learning the vocabulary", sampled, quiet) as advance:
        languages, joint = (options.source_language, options.target_language), options.vocabulary == "joint"
        return TextPair.train(
            _sample(corpus.source, corpus.lines, split, advance),
            _sample(corpus.target, corpus.lines, split, advance),
            VocabularyOptions(languages, options.vocabulary_size, joint, options.processing),
            split=partial(_split, jobs),
        )


def _split(jobs: int, lines: Iterable[str], language: str, processing: Processing) -> Iterator[str]:
    """`split_words` on many cores, where it is work; learning itself runs on all of them anyway."""
    if processing in ("raw", "pretokenized"):
        return split_words(lines, language, processing)
    words = partial(_split_chunk, language, processing)
    return chain.from_iterable(ordered_map(words, chunks(lines), jobs))


def _split_chunk(language: str, processing: Processing, lines: list[str]) -> list[str]:
    return list(split_words(lines, language, processing))


def _sample(path: Path, lines: int, split: bool, advance: Advance) -> Iterator[str]:
    """All lines, or as many as suffice, evenly spread over a larger file."""
    wanted = _sample_size(path, lines, split)
    for number, line in enumerate(read_lines(path)):
        if (number + 1) * wanted // lines > number * wanted // lines:
            advance(1)
            yield line


def _sample_size(path: Path, lines: int, split: bool) -> int:
    """How many lines to learn from. split: words are split by Moses or jieba before.

    Fewer of raw text without spaces, where memory goes to clauses that never recur.
    """
    if split:
        return min(lines, SAMPLE)
    words = [word for line in islice(read_lines(path), 1000) for word in line.split()]
    unspaced = sum(map(len, words)) > UNSPACED * len(words)
    return min(lines, SAMPLE // 10 if unspaced else SAMPLE)


def _reuse(directory: Path, source_language: str, target_language: str) -> TextPair:
    """The tokenizers of a dataset or model directory, which must be of these languages."""
    name = "config.json" if (directory / "config.json").exists() else "dataset.json"
    description = read_description(directory, name, "a dataset or model directory")
    if "text" not in description:
        raise UserError(f"{directory / name} does not describe tokenizers; give a dataset or model directory")
    text = TextPair.load(directory, description["text"])
    found = text.source.language, text.target.language
    if found != (source_language, target_language):
        raise UserError(
            f"the tokenizers of {directory} are for {found[0]}-{found[1]}, "
            f"expected {source_language}-{target_language}"
        )
    return text


def _write(
    directory: Path, corpus: _Corpus, text: TextPair, options: PrepareOptions, jobs: int, quiet: bool
) -> SplitReport:
    """Write a split. Only training pairs are filtered: scores must be those of the whole test set."""
    limits = None
    if corpus.name == "train":
        limits = options.limits
    else:
        _copy(corpus.source, directory / f"{corpus.name}.source.txt")
        _copy(corpus.target, directory / f"{corpus.name}.target.txt")
        if corpus.references:
            _copy(corpus.references, directory / f"{corpus.name}.references.tsv")
    with stage(f"encoding {corpus.name}", corpus.lines, quiet) as advance:
        own = jobs if corpus.name == "train" else 1  # others are small
        return write_split(directory / corpus.name, corpus.pairs(), text, limits, advance, own)


def _copy(path: Path, copy: Path) -> None:
    """The lines of a file as plain UTF-8 with LF."""
    with copy.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in read_lines(path))


def _refuse_empty(train: SplitReport) -> None:
    if train.pairs == 0:
        reasons = ", ".join(f"{count} {reason}" for reason, count in train.dropped.items())
        raise UserError(f"no training pairs are left (dropped: {reasons}); check the files and the limits")


def _describe(directory: Path, text: TextPair, splits: dict[str, SplitReport], limits: Limits) -> None:
    """Write dataset.json, last: it has the hash of every other file."""
    files = {path.name: sha256(path) for path in sorted(directory.iterdir())}
    description = {
        "format_version": FORMAT_VERSION,
        "text": text.save(directory),
        "limits": asdict(limits),
        "splits": {name: _describe_split(report, text) for name, report in splits.items()},
        "files": files,
    }
    write_text(directory / "dataset.json", json.dumps(description, indent=2, ensure_ascii=False) + "\n")


def _describe_split(report: SplitReport, text: TextPair) -> dict[str, Any]:
    def side(tokens: int, tokenizer: Tokenizer) -> dict[str, Any]:
        return {"tokens": tokens, "type": id_type(tokenizer.vocabulary_size).str}

    return {
        "pairs": report.pairs,
        "source": side(report.source_tokens, text.source),
        "target": side(report.target_tokens, text.target),
        "dropped": report.dropped,
    }
