"""disco evaluate, probe: score a model, or hypotheses that are already there."""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from disco_mt.cli.common import (
    BatchTokens,
    Json,
    ModelName,
    Quiet,
    RerankWith,
    Threads,
    input_lines,
    use_threads,
    write_lines,
)
from disco_mt.core.errors import UserError
from disco_mt.core.files import refuse_existing
from disco_mt.core.progress import stage
from disco_mt.core.settings import at_least
from disco_mt.data.dataset import Dataset
from disco_mt.decoding.options import BATCH_TOKENS, DecodeRequest, DecodingOptions
from disco_mt.engine.select import EngineOptions
from disco_mt.evaluation import probe as probing
from disco_mt.evaluation.quality import (
    Comparison,
    measure,
    paired_bootstrap,
    read_references,
    to_json,
    to_lines,
)
from disco_mt.evaluation.tune import Weight, choose, tune, with_weight
from disco_mt.nn.directory import check_fits, read_config
from disco_mt.nn.find import find_model
from disco_mt.systems.build import load_weights
from disco_mt.systems.disco.model import DisCo
from disco_mt.translator import DEFAULT_MODEL, Translator


def evaluate(
    source: Path,
    reference: tuple[Path, ...] = (),
    references: Path | None = None,
    model: ModelName = DEFAULT_MODEL,
    hypotheses: Path | None = None,
    compare_with: Path | None = None,
    rerank_with: RerankWith = "",
    decoding: DecodingOptions = DecodingOptions(),  # noqa: B008
    tune_length_penalty: bool = False,
    tune_length_weight: bool = False,
    paper_bleu: bool = False,
    batch_tokens: BatchTokens = BATCH_TOKENS,
    engine: EngineOptions = EngineOptions(),  # noqa: B008
    json_: Json = False,
    quiet: Quiet = False,
) -> int:
    """Translate a test set and score it: sacreBLEU with its signature, chrF, steps, length, repetitions.

    disco evaluate --model my-model --source test.en --reference test.de --hypotheses test.out

    Args:
        source: Test sentences, one per line.
        reference: One or more files with one reference per line.
        references: A file with all references of a line, separated by tabs; numbers may differ.
        hypotheses: File to write the translations to, for other metrics; it must not exist yet.
        compare_with: Translations of another system, as --hypotheses wrote them: how far this one is ahead in
            BLEU, with 95 % of 1,000 resampled test sets (paired bootstrap).
        tune_length_penalty: Score every length penalty from 0.0, 0.2 ... 2.0 first (of length candidates from
            1.0 to 3.0; give dev files), then use the one nearest to 1 within one standard error of the best.
        tune_length_weight: The same for the length weight of reranking or of strategy autoregressive.
        paper_bleu: Also the paper's tokenised BLEU, with compound splitting for German; not comparable with
            sacreBLEU.
    """
    if not reference and references is None:
        raise UserError("give references: --reference FILE (one or more) or --references FILE.tsv")
    if hypotheses is not None:
        refuse_existing(hypotheses)
    use_threads(engine.threads)
    lines = input_lines(source)
    if not lines:
        raise UserError(f"{source} is empty: there is nothing to score")
    wanted = read_references(reference, references, len(lines))
    others = None if compare_with is None else input_lines(compare_with)
    if others is not None and len(others) != len(lines):
        raise UserError(
            f"{compare_with} has {len(others)} translations, but there are {len(lines)} test sentences"
        )
    translator = Translator.from_pretrained(model, engine, rerank_with)
    decoding = _tuned(translator, lines, wanted, decoding, tune_length_penalty, tune_length_weight)
    started = time.perf_counter()
    with stage("translating", len(lines), quiet) as advance:
        request = DecodeRequest(progress=advance, batch_tokens=batch_tokens)
        found = translator.translate(lines, decoding, request)
    milliseconds = 1000 * (time.perf_counter() - started) / max(1, len(lines))
    texts = [each.text for each in found]
    if hypotheses is not None:
        write_lines(texts, hypotheses)
    language = translator.text.target.language
    quality = measure(texts, wanted, language, paper_bleu)
    steps = sum(each.steps for each in found) / max(1, len(found))
    shown: dict[str, Any] = {**to_json(quality), "steps": steps, "milliseconds": milliseconds}
    shown["decoding"] = asdict(decoding)
    told = [*to_lines(quality), f"steps             {steps:.2f}", f"ms per sentence   {milliseconds:.2f}"]
    if others is not None:
        compared = paired_bootstrap(others, texts, wanted, language)
        shown["compared"] = asdict(compared)
        told.append(_line(compared))
    print(json.dumps(shown) if json_ else "\n".join(told))
    return 0


def _line(compared: Comparison) -> str:
    interval = f"[{compared.low:+.2f}, {compared.high:+.2f}], p = {compared.p_value:.3f}"
    return (
        f"ahead by        {compared.difference:+.2f}  {interval}; {compared.bleu_a:.2f} {compared.signature}"
    )


def _tuned(
    translator: Translator,
    lines: list[str],
    references: list[list[str]],
    decoding: DecodingOptions,
    penalty: bool,
    weight: bool,
) -> DecodingOptions:
    """The options with the chosen value of what is to be tuned; every value is reported on standard error."""
    wanted: dict[Weight, bool] = {"length_penalty": penalty, "length_weight": weight}
    for name in (name for name, tuned in wanted.items() if tuned):
        tried = []
        for each in tune(translator, lines, references, decoding, name):
            tried.append(each)
            print(f"{name} {each.value:.1f}  {each.bleu:.2f} BLEU, +/- {each.error:.2f}", file=sys.stderr)
        value = choose(tried)
        decoding = with_weight(decoding, name, value)
        why = "the nearest to 1 within one standard error of the best"
        print(f"chosen: {name} {value:.1f}, {why}", file=sys.stderr)
    return decoding


def probe(
    model: ModelName,
    data: Path,
    split: Literal["train", "valid", "test"] = "valid",
    sentences: int = 1000,
    threads: Threads = 0,
    json_: Json = False,
) -> int:
    """Show the loss per word of a DisCo by what a word may see, and the loss of its length predictor.

    disco probe --model my-model --data distilled

    Args:
        data: Dataset directory with the same tokenizers.
        split: Which part of it.
        sentences: How many pairs, from the first on.
    """
    use_threads(threads)
    at_least("--sentences", sentences, 1)
    dataset, directory = Dataset.open(data), read_config(find_model(model))
    check_fits(directory, "model", data, dataset.description)
    if split not in dataset.splits:
        raise UserError(f"{data} has no {split} split; it has: {', '.join(dataset.splits)}")
    weights = load_weights(directory)
    if not isinstance(weights, DisCo):
        raise UserError(f"disco probe is for models of kind disco; {model} is of kind {weights.config.kind}")
    figures = probing.probe(weights, dataset.splits[split], sentences).figures()
    if json_:
        print(json.dumps({name: None if math.isnan(value) else value for name, value in figures.items()}))
    else:
        print("\n".join(f"{name:<16}{value:7.3f}" for name, value in figures.items()))
    return 0
