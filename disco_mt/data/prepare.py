"""Parallel text files -> a dataset directory (dataset.py says what is in it).

Files are checked and counted, then a vocabulary is learned, then the lines are encoded chunk by chunk, so
that memory does not grow with the corpus. Several processes share the work; the result does not depend on
their number.
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
from disco_mt.core.settings import at_least, one_of
from disco_mt.data.dataset import FORMAT_VERSION, id_type, read_description
from disco_mt.data.encode import Limits, SplitReport, chunks, write_split
from disco_mt.data.parallel import ordered_map
from disco_mt.text.lines import read_lines
from disco_mt.text.moses import Processing, split_words
from disco_mt.text.pair import TextPair, Vocabulary, VocabularyOptions
from disco_mt.text.tokenizer import Tokenizer

SAMPLE = 500_000  # at most so many lines of each side are used to learn a vocabulary
LARGE = 20_000_000  # bytes of training text: below, starting processes does not pay
UNSPACED = 15  # characters per word, on average: above, text has no spaces between words, such as Chinese

PrepareProcessing = Literal["raw", "moses", "pretokenized"]


@dataclass(frozen=True)
class PrepareOptions:
    """Options of `prepare`. Every file is UTF-8 text, one sentence per line, plain or .gz."""

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
    vocabulary: Vocabulary = "joint"  # one for both languages, or one for each
    vocabulary_size: int = 32_000  # of each vocabulary, special tokens included; a small corpus may give less
    processing: PrepareProcessing = "raw"  # moses: as in the paper, with jieba for Chinese
    tokenizers: Path | None = None  # use the tokenizers of this dataset or model directory
    max_length: int = Limits.max_length  # tokens; longer training pairs are dropped
    max_ratio: float = Limits.max_ratio  # training pairs whose sides differ more in length are dropped
    jobs: int = 0  # parallel processes; 0: one per core, if the corpus is large enough

    @property
    def limits(self) -> Limits:
        return Limits(self.max_length, self.max_ratio)


@dataclass(frozen=True)
class PrepareReport:
    out: Path
    source_vocabulary_size: int
    target_vocabulary_size: int
    joint: bool
    splits: dict[str, SplitReport]


@dataclass(frozen=True)
class _Corpus:
    """The files of a split, which all have the same number of lines."""

    name: str
    source: Path
    target: Path
    references: Path | None
    lines: int

    def pairs(self) -> Iterator[tuple[str, str]]:
        return zip(read_lines(self.source), read_lines(self.target), strict=True)


def prepare(options: PrepareOptions, quiet: bool = False) -> PrepareReport:
    """Write the dataset directory `options.out`; after an error it does not exist."""
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
    """Check everything that can be checked before a file is opened."""
    one_of("vocabulary", options.vocabulary, get_args(Vocabulary))
    one_of("processing", options.processing, get_args(PrepareProcessing))
    at_least("max_length", options.max_length, 1)
    at_least("max_ratio", options.max_ratio, 1)
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


def _held_out(options: PrepareOptions, split: str) -> tuple[Path | None, Path | None, Path | None]:
    if split == "valid":
        return options.valid_source, options.valid_target, options.valid_references
    return options.test_source, options.test_target, options.test_references


def _jobs(options: PrepareOptions) -> int:
    """One process per core if the corpus is large. Unreadable files are reported later."""
    files = [path for path in (options.source, options.target) if path.is_file()]
    return cores() if sum(path.stat().st_size for path in files) >= LARGE else 1


def _count(options: PrepareOptions, jobs: int, quiet: bool) -> list[_Corpus]:
    """Read every file once, so that errors in any of them are found early."""
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
    """The number of lines that all these files have. counted: yields the number of each file."""
    counts: dict[Path, int] = {}
    for path in filter(None, paths):
        counts[path] = next(counted)
        advance(1)
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{path} has {count:,}" for path, count in counts.items())
        raise UserError(f"parallel files must have the same number of lines: {listed}")
    return next(iter(counts.values()))


def _text(options: PrepareOptions, corpus: _Corpus, jobs: int, quiet: bool) -> TextPair:
    """The tokenizers of another directory, or new ones learned from the training pairs."""
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
    """`split_words` in parallel, where it takes time."""
    if processing in ("raw", "pretokenized"):
        return split_words(lines, language, processing)
    words = partial(_split_chunk, language, processing)
    return chain.from_iterable(ordered_map(words, chunks(lines), jobs))


def _split_chunk(language: str, processing: Processing, lines: list[str]) -> list[str]:
    return list(split_words(lines, language, processing))


def _sample(path: Path, lines: int, split: bool, advance: Advance) -> Iterator[str]:
    """All lines, or a sample that is evenly spread over a large file."""
    wanted = _sample_size(path, lines, split)
    for number, line in enumerate(read_lines(path)):
        if (number + 1) * wanted // lines > number * wanted // lines:
            advance(1)
            yield line


def _sample_size(path: Path, lines: int, split: bool) -> int:
    """How many lines to learn from. split: words are split by Moses or jieba first.

    Fewer of raw text without spaces, where whole clauses would be counted as words and fill the memory.
    """
    if split:
        return min(lines, SAMPLE)
    words = [word for line in islice(read_lines(path), 1000) for word in line.split()]
    unspaced = sum(map(len, words)) > UNSPACED * len(words)
    return min(lines, SAMPLE // 10 if unspaced else SAMPLE)


def _reuse(directory: Path, source_language: str, target_language: str) -> TextPair:
    """The tokenizers of a dataset or model directory, which must be for these languages."""
    name = "config.json" if (directory / "config.json").exists() else "dataset.json"
    description = read_description(directory, name, "a dataset or model directory")
    if "text" not in description:
        raise UserError(f"{directory / name} does not describe tokenizers; give a dataset or model directory")
    text = TextPair.load(directory, description["text"])
    languages = text.source.language, text.target.language
    if languages != (source_language, target_language):
        raise UserError(
            f"the tokenizers of {directory} are for {languages[0]}-{languages[1]}, "
            f"expected {source_language}-{target_language}"
        )
    return text


def _write(
    directory: Path, corpus: _Corpus, text: TextPair, options: PrepareOptions, jobs: int, quiet: bool
) -> SplitReport:
    """Write a split. Only training pairs are filtered: scores must be on the complete test set."""
    limits = None
    if corpus.name == "train":
        limits = options.limits
    else:
        _copy(corpus.source, directory / f"{corpus.name}.source.txt")
        _copy(corpus.target, directory / f"{corpus.name}.target.txt")
        if corpus.references:
            _copy(corpus.references, directory / f"{corpus.name}.references.tsv")
    with stage(f"encoding {corpus.name}", corpus.lines, quiet) as advance:
        processes = jobs if corpus.name == "train" else 1  # others are small
        return write_split(directory / corpus.name, corpus.pairs(), text, limits, advance, processes)


def _copy(path: Path, copy: Path) -> None:
    """The lines of a file as plain UTF-8 with LF."""
    with copy.open("w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(f"{line}\n" for line in read_lines(path))


def _refuse_empty(train: SplitReport) -> None:
    if train.pairs == 0:
        reasons = ", ".join(f"{count} {reason}" for reason, count in train.dropped.items())
        raise UserError(f"no training pairs are left (dropped: {reasons}); check the files and the limits")


def _describe(directory: Path, text: TextPair, splits: dict[str, SplitReport], limits: Limits) -> None:
    """Write dataset.json last, since it has the hashes of all other files."""
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
