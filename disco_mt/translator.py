"""The public API: load a model once, translate many texts.

from disco_mt import Translator
translator = Translator.from_pretrained("en-de")
translator.translate("How are you?").text
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

from disco_mt.decoding.options import DecodeRequest, DecodingDefaults, DecodingOptions, read_defaults
from disco_mt.decoding.reranking import Reranker
from disco_mt.decoding.results import Hypothesis, Translation
from disco_mt.engine.reference import Engine
from disco_mt.engine.select import EngineOptions, make_engine
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.directory import CONFIG, check_vocabulary, read_config
from disco_mt.nn.find import check_device, find_model
from disco_mt.pins.parse import Pin
from disco_mt.pins.tokens import TokenPins, check_number, problem, token_pins
from disco_mt.systems import check_pinnable, decoder_for, strategy_for
from disco_mt.systems.build import load_reranker, load_weights, reranker_of
from disco_mt.text.pair import TextPair
from disco_mt.text.segments import Long, Segment, Segmenter
from disco_mt.translation import joined, named, named_passes, numbered_passes, refusal, restored

DEFAULT_MODEL = "en-de"
DEFAULT_OPTIONS = DecodingOptions()
DEFAULT_ENGINE = EngineOptions()
NO_REQUEST = DecodeRequest()

Ids = Sequence[int]


@dataclass(frozen=True)
class Translator:
    """A model and its tokenizers."""

    model: TranslationModel
    text: TextPair
    engine: Engine  # what decodes where it can; the plain algorithms do the rest
    reranker: Reranker | None = None
    defaults: DecodingDefaults = field(default_factory=DecodingDefaults)
    device: str = "cpu"

    @staticmethod
    def from_pretrained(
        name: str | Path = DEFAULT_MODEL, engine: EngineOptions = DEFAULT_ENGINE, rerank_with: str | Path = ""
    ) -> Translator:
        """`name`: a shipped model, a model directory, or the id of a model on the hub ("owner/model").

        rerank_with: another model, or "self", that scores the length candidates left to right and picks one;
            "none": the most confident one is taken; "": the model's own choice, which was made on dev.
        """
        directory = read_config(find_model(name))
        text = TextPair.load(directory.path, directory.text)
        check_vocabulary(directory, text.source.vocabulary_size, text.target.vocabulary_size)
        model = load_weights(directory).to(check_device(engine.device))
        defaults = read_defaults(
            directory.extra.get("decoding", {}), f"{directory.path / CONFIG}: extra.decoding"
        )
        reranker = load_reranker(directory, model, str(rerank_with) or defaults.rerank)
        return Translator(model, text, make_engine(model, text, engine), reranker, defaults, engine.device)

    @overload
    def translate(self, texts: str, *how: Any, **more: Any) -> Translation: ...

    @overload
    def translate(self, texts: list[str] | tuple[str, ...], *how: Any, **more: Any) -> list[Translation]: ...

    def translate(
        self,
        texts: str | list[str] | tuple[str, ...],
        options: DecodingOptions = DEFAULT_OPTIONS,
        request: DecodeRequest = NO_REQUEST,
        *,
        split: bool = False,
        long: Long = "split",
    ) -> Translation | list[Translation]:
        """One translation per text, in order; an empty text gives an empty translation.

        texts: one text, which gives one translation, or several.
        request: pins (a text whose pins cannot be kept comes back with `refused` set), traces, callbacks.
        split: cut each text into sentences first (they come back as `parts`; `Pin.sentence` counts them).
        long: a sentence longer than the model reads is cut up ("split") or comes back with `refused` set.
        """
        if isinstance(texts, str):
            one = replace(request, pins=None if request.pins is None else [request.pins])
            return self.translate([texts], options, one, split=split, long=long)[0]
        pins = [()] * len(texts) if request.pins is None else request.pins
        check_number(pins, len(texts))
        cut = [self._segments(text, its, split, long) for text, its in zip(texts, pins, strict=True)]
        parts = [part for text in cut if not isinstance(text, str) for part in text]
        on_pass = request.on_pass and numbered_passes(request.on_pass, cut)
        translated = self.translate_ids(
            [segment.ids for segment, _ in parts],
            options,
            replace(request, pins=[its for _, its in parts], on_pass=on_pass),
        )
        done = iter([restored(each, part.aside) for each, (part, _) in zip(translated, parts, strict=True)])
        language = self.text.target.language
        return [
            refusal(text) if isinstance(text, str) else joined([next(done) for _ in text], language)
            for text in cut
        ]

    def _segments(
        self, text: str, pins: Sequence[Pin], split: bool, long: Long
    ) -> list[tuple[Segment, TokenPins]] | str:
        """What is translated one by one, with its pins. A string says why a text is refused."""
        config = self.model.config
        segments = Segmenter(self.text.source, config.longest_source).segments(text, split, long)
        if isinstance(segments, str):
            return segments
        found = token_pins(pins, len(segments), self.text.target, config)
        return found if isinstance(found, str) else [*zip(segments, found, strict=True)]

    def translate_ids(
        self,
        sentences: Sequence[Ids],
        options: DecodingOptions = DEFAULT_OPTIONS,
        request: DecodeRequest = NO_REQUEST,
    ) -> list[Translation]:
        """Sentences as source ids without EOS, decoded in batches; results in the order given.

        A sentence longer than the model reads, or whose pins cannot be kept, comes back with `refused` set.
        """
        options = self.resolved(options)
        pins = request.pins or [()] * len(sentences)
        if any(pins):
            check_pinnable(self.model.config.kind, options.strategy)
        results = dict(self._not_decoded(sentences, pins))
        rest = [index for index in range(len(sentences)) if index not in results]
        target = self.text.target
        on_pass = request.on_pass and named_passes(request.on_pass, rest, target)
        request = replace(request, pins=[pins[index] for index in rest], on_pass=on_pass)
        decoded = self.hypotheses([sentences[index] for index in rest], options, request)
        results |= {rest[index]: named(hypothesis, target) for index, hypothesis in decoded.items()}
        return [results[index] for index in range(len(sentences))]

    def hypotheses(
        self, sentences: Sequence[Ids], options: DecodingOptions, request: DecodeRequest
    ) -> dict[int, Hypothesis[int]]:
        """Decode and rerank sentences; by index. options: `resolved`."""
        reranker = self.reranker_for(options)
        itself = reranker is not None and reranker.model is self.model
        request = replace(request, score_candidates=itself)
        found: dict[int, Hypothesis[int]] = {}
        for index, hypothesis in self.engine.decode(sentences, options, request):
            found[index] = hypothesis
            if request.progress is not None:
                request.progress(1)
        return found if reranker is None else reranker.rerank_all(sentences, found, options, request)

    def resolved(self, options: DecodingOptions) -> DecodingOptions:
        """Options with a strategy, and the model's own defaults where nothing else is asked for."""
        kind = self.model.config.kind
        decoder = decoder_for(kind, options.strategy, options.effort)  # refuse before any work
        options = replace(options, strategy=strategy_for(kind, options.strategy))
        filled = self.defaults.fill(options, self.reranker is not None)
        if filled.effort not in decoder.efforts:  # the model's own, for another strategy
            filled = replace(filled, effort="normal")
        reranker = self.reranker_for(filled)
        itself = reranker is not None and reranker.model is self.model
        return filled if itself else replace(filled, length_weight=options.length_weight)

    def reranker_for(self, options: DecodingOptions) -> Reranker | None:
        """What reranks the candidates. A model that wrote them left to right need not score them again."""
        if options.effort == "fast":
            return None
        reranker = self.reranker or (reranker_of(self.model) if options.effort == "high" else None)
        written = options.strategy == "autoregressive"
        return None if written and reranker is not None and reranker.model is self.model else reranker

    def _not_decoded(
        self, sentences: Sequence[Ids], pins: Sequence[TokenPins]
    ) -> Iterator[tuple[int, Translation]]:
        """Sentences that are empty, too long, or have pins that cannot be kept."""
        config = self.model.config
        segmenter = Segmenter(self.text.source, config.longest_source)
        for index, ids in enumerate(sentences):
            why = segmenter.too_long(len(ids)) or problem(pins[index], config)
            if why or not ids:
                yield index, refusal(why)
