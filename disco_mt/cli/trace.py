"""disco trace: how a translation comes about, pass by pass."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from disco_mt.cli.common import Device, ModelName, Threads, input_lines, use_threads, writing
from disco_mt.cli.translate import pins_for_one_text
from disco_mt.core.errors import UserError
from disco_mt.core.files import refuse_existing, write_text
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.engine.select import EngineOptions
from disco_mt.pins.parse import Pin
from disco_mt.systems import SYSTEMS, strategy_for, system_for
from disco_mt.text.lines import well_formed
from disco_mt.text.sentences import split_sentences
from disco_mt.text.tokenizer import Tokenizer
from disco_mt.translator import DEFAULT_MODEL, Translator
from disco_mt.views import TraceView, print_traces, render_html, render_svg
from disco_mt.views.view import readable_pieces, to_data, words_by_pass

COMPARED = ("easy-first", "mask-predict")  # the two of the paper's example figure


def trace(
    text: Annotated[str, tyro.conf.Positional] = "",
    model: ModelName = DEFAULT_MODEL,
    strategies: tuple[str, ...] = (),
    iterations: int = 5,
    length_beam: int = 5,
    pin: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    position: int | None = None,
    candidate: int | None = None,
    html: Path | None = None,
    svg: Path | None = None,
    json_: Annotated[bool, tyro.conf.arg(name="json")] = False,
    device: Device = "cpu",
    threads: Threads = 0,
) -> int:
    """Show every pass of one sentence: changed words are marked, the shade is how sure the model is.

    disco trace "I wanted to visit my old friends last weekend."

    disco trace "How are you?" --strategies easy-first --position 2 --html trace.html --svg trace.svg

    Args:
        text: One sentence; without it, one line is read from standard input.
        strategies: What to compare. Default: easy-first and mask-predict, as far as the model has them.
        iterations: T: the most passes of easy-first, the number of passes of mask-predict.
        length_beam: K: how many lengths are tried.
        pin: A word or phrase that the translation must contain, anywhere ("Haus") or from a token on ("das
            Haus@2", counted from 0); may be given several times.
        position: A word, counted from 0; the words that it observed are highlighted.
        candidate: Length candidate to show in the terminal; 0 is the likeliest length. Default: the winner.
        html: Page to write, with all passes of all candidates; one file, nothing to download.
        svg: Picture to write, for a README, a paper or a talk.
        json_: Print all passes of all candidates as JSON.
    """
    for path in (html, svg):
        if path is not None:
            refuse_existing(path)
    use_threads(threads)
    translator = Translator.from_pretrained(model, EngineOptions(device), "none")  # as in the paper
    chosen = _strategies(translator.model.config.kind, strategies)
    sentence = _one_sentence(text, translator.text.source)
    options = DecodingOptions(iterations=iterations, length_beam=length_beam)
    (pins,) = pins_for_one_text(pin, 1)
    views = [trace_view(translator, sentence, replace(options, strategy=name), pins) for name in chosen]
    for view in views:
        words_by_pass(view, candidate, position)  # refuses what does not exist, before anything is written
    page = render_html(sentence, views) if html else ""
    picture = render_svg(sentence, views, position) if svg else ""
    for path, content in ((html, page), (svg, picture)):
        if path is not None:
            with writing(path):
                write_text(path, content)
    if json_:
        print(json.dumps(to_data(sentence, views), ensure_ascii=False))
    else:
        print_traces(Console(), sentence, views, candidate, position)
    return 0


def trace_view(
    translator: Translator, sentence: str, options: DecodingOptions, pins: Sequence[Pin] = ()
) -> TraceView:
    """Translate a sentence with a trace, and once more without: the time shown is that of translating."""
    request = DecodeRequest(pins)
    found = translator.translate(sentence, options, replace(request, trace=True), long="refuse")
    if found.refused:
        raise UserError(f"this sentence cannot be traced: {found.refused}")
    if found.trace is None:
        raise UserError(f"there is nothing to trace in {sentence[:50]!r}; give a sentence")
    started = time.perf_counter()
    translator.translate(sentence, options, request)
    milliseconds = 1000 * (time.perf_counter() - started)
    pieces = readable_pieces(found.trace, translator.text.target)
    return TraceView(options.strategy, found.trace, found.text, found.steps, pieces, milliseconds)


def _strategies(kind: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The strategies to compare, or a refusal that lists what can be traced."""
    able = _traceable(kind)
    chosen = tuple(strategy_for(kind, name) for name in wanted)
    if not able or set(chosen) - set(able):
        what = ", ".join(chosen) or f"a model of kind {kind}"
        listed = [f"{name} models with {', '.join(_traceable(name))}" for name in SYSTEMS if _traceable(name)]
        raise UserError(
            f"{what}: one word is written after the other, so there are no passes to trace; "
            f"there are: {'; '.join(listed)}"
        )
    return chosen or tuple(name for name in COMPARED if name in able) or able[:1]


def _traceable(kind: str) -> tuple[str, ...]:
    return tuple(name for name, decoder in system_for(kind).decoders.items() if decoder.trace)


def _one_sentence(text: str, source: Tokenizer) -> str:
    """The sentence to trace. A paragraph is refused: each of its sentences has passes of its own."""
    lines = [text] if text else [line for line in input_lines(None) if line.strip()]
    if source.processing == "pretokenized":  # tokens, in which the end of a sentence cannot be told
        sentences = [line for line in lines if line.strip()]
    else:
        sentences = [part for line in lines for part in split_sentences(line, source.language)]
    if not sentences:
        raise UserError('give a sentence to trace: disco trace "How are you?"')
    if len(sentences) > 1:
        raise UserError(
            f"a trace shows one sentence, but this text has {len(sentences)}; trace them one by one, "
            f"the first is {sentences[0][:80]!r}"
        )
    return well_formed(sentences[0])
