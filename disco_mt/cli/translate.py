"""disco translate: text in, translation out."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from disco_mt.cli.common import (
    BatchTokens,
    ModelName,
    Quiet,
    RerankWith,
    input_lines,
    use_threads,
    write_lines,
)
from disco_mt.core.errors import UserError
from disco_mt.core.files import refuse_existing
from disco_mt.core.progress import stage
from disco_mt.decoding.options import BATCH_TOKENS, DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Trace, Translation
from disco_mt.engine.select import EngineOptions
from disco_mt.pins.parse import Pin
from disco_mt.pins.pinned import TokenPin
from disco_mt.text.lines import well_formed
from disco_mt.text.tokenizer import Tokenizer
from disco_mt.translator import DEFAULT_MODEL, Translator


def translate(
    text: Annotated[tuple[str, ...], tyro.conf.Positional] = (),
    model: ModelName = DEFAULT_MODEL,
    input_: Annotated[Path | None, tyro.conf.arg(name="input")] = None,
    output: Path | None = None,
    rerank_with: RerankWith = "",
    decoding: DecodingOptions = DecodingOptions(),  # noqa: B008
    split: Literal["auto", "yes", "no"] = "auto",
    long: Literal["split", "refuse"] = "split",
    tokens: bool = False,
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
    pin: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    batch_tokens: BatchTokens = BATCH_TOKENS,
    engine: EngineOptions = EngineOptions(),  # noqa: B008
    quiet: Quiet = False,
) -> int:
    """Translate text, a file or standard input, one line in, one line out.

    disco translate "How long have you lived here?"

    disco translate --model my-model --input news.en --output news.de

    disco translate --strategy mask-predict --iterations 4 < news.en

    disco translate "How long have you lived here?" --pin "wohnst" --pin "Wie lange@0"

    Args:
        text: Texts to translate; without any, lines are read from --input or standard input.
        input_: File to translate, plain or .gz; "-" is standard input.
        output: File to write; it must not exist yet. Default: standard output.
        split: Split texts into sentences first; auto: yes for texts given as arguments, no for files.
        long: A sentence longer than the model reads is split into pieces or refused by name.
        tokens: Lines are subword tokens separated by spaces, in and out.
        json_: One JSON object per line: text, tokens, probabilities, score, steps; with --tokens also the
            lengths tried and every pass.
        pin: A word or phrase that the translation must contain; may be given several times, for one text.
            "Haus": anywhere; "das Haus@2": its first token is token 2, counted from 0; "Haus@1:2": of
            sentence 1, where the text is split; a text that itself ends in @2 takes one more @.
    """
    if text and input_ is not None:
        raise UserError("give texts as arguments or a file with --input, not both")
    if output is not None:
        refuse_existing(output)
    use_threads(engine.threads)
    translator = Translator.from_pretrained(model, engine, rerank_with)
    lines = [well_formed(each) for each in text] if text else input_lines(input_)
    pinned = pins_for_one_text(pin, len(lines))
    if tokens:
        ids = [translator.text.source.ids(line.split()) for line in lines]
        pins = [tuple(_as_tokens(each, translator.text.target) for each in pins) for pins in pinned]
        request = DecodeRequest(pins, trace=json_, batch_tokens=batch_tokens)
        results = translator.translate_ids(ids, decoding, request)
    else:
        with stage("translating", len(lines), quiet or bool(text)) as advance:
            cut = bool(text) if split == "auto" else split == "yes"
            request = DecodeRequest(pinned, progress=advance, batch_tokens=batch_tokens)
            results = translator.translate(lines, decoding, request, split=cut, long=long)
    write_lines(_rendered(lines, results, tokens, json_), output)
    _report_copied(results)
    return _report_refused(results, "; use --long split" if long == "refuse" and not pin else "")


def pins_for_one_text(typed: tuple[str, ...], texts: int) -> list[list[Pin]]:
    """The pins of each text: there are none, or there is one text."""
    if typed and texts != 1:
        raise UserError(f"--pin is for one text, but there are {texts}; translate them one by one")
    return [[Pin.parse(well_formed(each)) for each in typed] for _ in range(texts)]


def _as_tokens(pin: Pin, target: Tokenizer) -> TokenPin:
    """With --tokens, a pin is written as tokens, too: it is taken as it is."""
    return TokenPin(tuple(target.ids(pin.text.split())), pin.at, closed=False)


def _rendered(lines: list[str], results: list[Translation], tokens: bool, as_json: bool) -> list[str]:
    if as_json:
        pairs = zip(lines, results, strict=True)
        return [json.dumps(as_dict(line, found), ensure_ascii=False) for line, found in pairs]
    return [" ".join(found.tokens) if tokens else found.text for found in results]


def as_dict(line: str, found: Translation) -> dict[str, Any]:
    """One result as JSON shows it."""
    shown: dict[str, Any] = {
        "source": line,
        "text": found.text,
        "tokens": found.tokens,
        "probabilities": found.probabilities,
        "score": found.score,
        "steps": found.steps,
    }
    if found.pinned:
        shown["pinned"] = found.pinned
    if found.copied:
        shown["copied"] = found.copied
    if found.refused:
        shown["refused"] = found.refused
    if found.parts:
        shown["sentences"] = [part.text for part in found.parts]
    if found.trace is not None:
        shown |= _trace(found.trace)
    return shown


def _trace(trace: Trace[str]) -> dict[str, Any]:
    return {
        "strategy": trace.strategy,
        "lengths": trace.lengths,
        "length_log_probabilities": trace.length_log_probabilities,
        "passes": [
            [{"tokens": c.tokens, "probabilities": c.probabilities, "score": c.score} for c in now]
            for now in trace.passes
        ],
        "winners": trace.winners,
    }


def _report_copied(results: list[Translation]) -> None:
    copied = sum(len(each) for found in results for each in found.copied)
    if copied:
        print(f"disco: {copied} characters were copied: the model does not know them", file=sys.stderr)


def _report_refused(results: list[Translation], advice: str) -> int:
    refused = [(number, found.refused) for number, found in enumerate(results, start=1) if found.refused]
    for number, reason in refused:
        print(f"disco: line {number} was left empty: {reason}{advice}", file=sys.stderr)
    return 2 if refused else 0
