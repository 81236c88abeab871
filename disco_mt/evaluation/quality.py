"""How good a translation is: sacreBLEU with its signature, chrF, and the warning signs of parallel decoding.

Everything here works on strings, so that the same numbers come out for a model, a file of hypotheses or
another system's output.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from disco_mt.core.errors import UserError
from disco_mt.text.languages import base_language
from disco_mt.text.lines import read_lines

Statistics = np.ndarray[Any, np.dtype[np.int64]]
References = Sequence[Sequence[str]]  # references[i]: all references of line i, one or more


@dataclass(frozen=True)
class Quality:
    """What one set of hypotheses scores. Percentages where a name says rate, BLEU and chrF on 0 to 100."""

    sentences: int
    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    length_ratio: float  # hypothesis words / words of the closest reference, in BLEU's own tokens
    repetition_rate: float  # % of words equal to the word before them: how multimodality shows
    empty: int  # hypotheses without any text
    tokenised_bleu: float | None = None
    tokenised_bleu_label: str | None = None


def measure(
    hypotheses: Sequence[str], references: References, target_language: str, paper_bleu: bool = False
) -> Quality:
    """Score detokenised hypotheses against any number of references per line.

    `paper_bleu` adds the paper's tokenised BLEU; not for Chinese, where the paper itself uses sacreBLEU.
    """
    _check(hypotheses, references)
    streams = reference_streams(references)
    bleu, chrf = BLEU(tokenize=bleu_tokenizer(target_language)), CHRF()
    bleu_score, chrf_score = bleu.corpus_score(hypotheses, streams), chrf.corpus_score(hypotheses, streams)
    tokenised = paper_bleu and base_language(target_language) != "zh"
    return Quality(
        sentences=len(hypotheses),
        bleu=bleu_score.score,
        bleu_signature=str(bleu.get_signature()),
        chrf=chrf_score.score,
        chrf_signature=str(chrf.get_signature()),
        length_ratio=bleu_score.ratio,
        repetition_rate=repetition_rate(hypotheses, target_language),
        empty=sum(not hypothesis.strip() for hypothesis in hypotheses),
        tokenised_bleu=tokenised_bleu(hypotheses, references, target_language) if tokenised else None,
        tokenised_bleu_label=tokenised_bleu_label(target_language) if tokenised else None,
    )


def repetition_rate(hypotheses: Sequence[str], target_language: str) -> float:
    """Share of words equal to the word before them, in %; punctuation marks ("...") are not words."""
    tokenizer = BLEU(tokenize=bleu_tokenizer(target_language)).tokenizer
    words = repeated = 0
    for hypothesis in hypotheses:
        tokens = tokenizer(hypothesis).split()
        is_word = [any(map(str.isalnum, token)) for token in tokens]
        words += sum(is_word)
        repeated += sum(a == b and word for a, b, word in zip(tokens, tokens[1:], is_word[1:], strict=False))
    return 100 * repeated / words if words else 0.0


def bleu_tokenizer(target_language: str) -> str:
    """The sacreBLEU tokeniser that fits the target language; the signature names it in every report."""
    match base_language(target_language):
        case "zh":
            return "zh"
        case "ja":  # 13a would take a Japanese sentence for one word
            return "ja-mecab" if find_spec("MeCab") and find_spec("ipadic") else "char"
        case _:
            return "13a"


def reference_streams(references: References) -> list[list[str]]:
    """One list per reference number, as sacreBLEU wants them; None where a line has fewer references.

    (sacreBLEU's documentation allows None, its type hints do not; hence the return type.)
    """
    return [list(stream) for stream in zip_longest(*references)]


# The paper's tokenised BLEU


def tokenised_bleu(hypotheses: Sequence[str], references: References, target_language: str) -> float:
    """4-gram BLEU without smoothing on Moses tokens, with the conventional compound split for German.

    Only for comparison with the paper's tables: it is about 0.6 above sacreBLEU on WMT14 English-German.
    """
    _check(hypotheses, references)
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    score = bleu.corpus_score(
        [_paper_tokens(line, target_language) for line in hypotheses],
        reference_streams([[_paper_tokens(line, target_language) for line in lines] for lines in references]),
    )
    return float(score.score)


def tokenised_bleu_label(target_language: str) -> str:
    """The name to print beside `tokenised_bleu`, so that nobody mistakes it for sacreBLEU."""
    split = ", compound-split" if base_language(target_language) == "de" else ""
    return f"tokenised BLEU{split} (not comparable with sacreBLEU)"


def split_compounds(tokens: str) -> str:
    """'E-Mail' -> 'E ##AT##-##AT## Mail': the split of Luong et al. (2015), done to both sides."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", tokens)


def _paper_tokens(line: str, language: str) -> str:
    tokens: str = _moses(base_language(language)).tokenize(line, return_str=True, escape=False)
    return split_compounds(tokens) if base_language(language) == "de" else tokens


@lru_cache
def _moses(language: str) -> Any:
    from sacremoses import MosesTokenizer

    return MosesTokenizer(language)


# Is the difference between two systems real?


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same test set; the differences are b - a, in BLEU."""

    bleu_a: float
    bleu_b: float
    difference: float
    low: float  # the 95 % interval of the difference
    high: float
    p_value: float
    samples: int
    signature: str


def paired_bootstrap(
    hyp_a: Sequence[str],
    hyp_b: Sequence[str],
    references: References,
    target_language: str,
    *,
    samples: int = 1000,
    seed: int = 1,
) -> Comparison:
    """Koehn's (2004) paired bootstrap: both systems are scored on the same resampled test sets.

    The p-value is two-sided: how often a resampled difference lies as far from its mean as the observed
    difference lies from zero (as in sacreBLEU).
    """
    if samples < 1:
        raise UserError(f"samples must be at least 1, got {samples}")
    _check(hyp_a, references)
    _check(hyp_b, references)
    bleu = BLEU(tokenize=bleu_tokenizer(target_language))
    bleu.corpus_score(hyp_a, reference_streams(references))  # the signature needs the number of references
    both = np.stack([sentence_statistics(hyp, references, target_language) for hyp in (hyp_a, hyp_b)])
    bleu_a, bleu_b = (corpus_bleu(system.sum(0)) for system in both)
    resampled = _resampled(both, samples, seed)
    differences = resampled[:, 1] - resampled[:, 0]
    low, high = np.quantile(differences, [0.025, 0.975])
    far = np.abs(differences - differences.mean()) >= abs(bleu_b - bleu_a)
    return Comparison(
        bleu_a=bleu_a,
        bleu_b=bleu_b,
        difference=bleu_b - bleu_a,
        low=float(low),
        high=float(high),
        p_value=float((far.sum() + 1) / (samples + 1)),
        samples=samples,
        signature=f"{bleu.get_signature()}|bs:{samples}|seed:{seed}",
    )


def bleu_standard_error(
    hypotheses: Sequence[str], references: References, target_language: str, samples: int = 200
) -> float:
    """The standard deviation of BLEU over resampled test sets (bootstrap)."""
    statistics = sentence_statistics(hypotheses, references, target_language)
    return float(np.std(_resampled(statistics[None], samples, seed=1)))


def sentence_statistics(
    hypotheses: Sequence[str], references: References, target_language: str
) -> Statistics:
    """(sentence, 10): hypothesis and reference length, then matched and total n-grams; BLEU needs no more."""
    bleu = BLEU(tokenize=bleu_tokenizer(target_language), force=True)
    rows = []
    for hypothesis, lines in zip(hypotheses, references, strict=True):
        score = bleu.corpus_score([hypothesis], [[line] for line in lines])
        rows.append([score.sys_len, score.ref_len, *score.counts, *score.totals])
    return np.array(rows, dtype=np.int64)


def corpus_bleu(statistics: Statistics) -> float:
    """sacreBLEU of the summed (10,) statistics."""
    sys_len, ref_len, *ngrams = statistics.tolist()
    score = BLEU.compute_bleu(ngrams[:4], ngrams[4:], sys_len, ref_len, smooth_method="exp")
    return float(score.score)


def _resampled(systems: Statistics, samples: int, seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """systems: (system, sentence, 10). Their BLEU on resampled test sets: (sample, system)."""
    generator = np.random.default_rng(seed)
    sentences = systems.shape[1]
    drawn = (systems[:, generator.integers(sentences, size=sentences)].sum(1) for _ in range(samples))
    return np.array([[corpus_bleu(system) for system in sums] for sums in drawn])


# Reading references, showing results


def read_references(files: Sequence[Path], tsv: Path | None, count: int) -> list[list[str]]:
    """All references of `count` lines: one stream per file, and a file with tab-separated references.

    In the tab-separated file lines may have different numbers of references; empty fields are no references,
    but an empty line is one empty reference.
    """
    if not files and tsv is None:
        raise UserError(
            "no references: give at least one reference file or a tab-separated file of references"
        )
    references: list[list[str]] = [[] for _ in range(count)]
    for path in files:
        for lines, line in zip(references, _counted(path, count), strict=True):
            lines.append(line)
    if tsv is not None:
        for lines, line in zip(references, _counted(tsv, count), strict=True):
            lines.extend([field for field in line.split("\t") if field.strip()] or [""])
    return references


def _counted(path: Path, count: int) -> list[str]:
    lines = list(read_lines(path))
    if len(lines) != count:
        raise UserError(
            f"{path} has {len(lines)} lines of references, but there are {count} sentences to score; "
            "line i must hold the reference of sentence i"
        )
    return lines


def to_json(result: Quality | Comparison) -> dict[str, Any]:
    """The result as JSON values; what was not measured is left out."""
    return {name: value for name, value in asdict(result).items() if value is not None}


def to_lines(quality: Quality) -> list[str]:
    """The result as aligned plain text."""
    rows = [
        ("BLEU", f"{quality.bleu:.2f}", quality.bleu_signature),
        ("chrF", f"{quality.chrf:.2f}", quality.chrf_signature),
        ("length ratio", f"{quality.length_ratio:.3f}", ""),
        ("repetition", f"{quality.repetition_rate:.2f} %", "words equal to the word before them"),
        ("empty", str(quality.empty), f"of {quality.sentences} sentences"),
    ]
    if quality.tokenised_bleu is not None:
        rows.insert(1, ("tok. BLEU", f"{quality.tokenised_bleu:.2f}", str(quality.tokenised_bleu_label)))
    return [f"{name:<13}{value:>8}  {note}".rstrip() for name, value, note in rows]


def _check(hypotheses: Sequence[str], references: References) -> None:
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} hypotheses but references for {len(references)} lines; the counts must agree"
        )
    if not hypotheses:
        raise UserError("there is nothing to score: 0 hypotheses")
    for number, lines in enumerate(references, start=1):
        if not lines:
            raise UserError(f"line {number} has no reference; every line needs at least one")
