"""The public face: load a model once, translate many texts.

from disco_mt import Translator
translator = Translator.from_pretrained("en-de")
translator.translate(["How are you?"])[0].text
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from disco_mt.core.errors import UserError
from disco_mt.core.settings import at_least, from_dict, one_of
from disco_mt.core.special_tokens import EOS, PAD, UNK
from disco_mt.decoding.naming import joined, named, named_passes, numbered_passes, refusal, restored
from disco_mt.decoding.options import DecodingOptions, Read, Settle, check_pinnable, decode, strategy_for
from disco_mt.decoding.reranking import Reader, Reads, check_same_vocabulary, pick, read_candidates, rescore
from disco_mt.decoding.results import Hypothesis, OnPass, Translation
from disco_mt.engine.pruning import Pruning
from disco_mt.engine.select import Engine, make_engine
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.directory import CONFIG, Directory, load_weights, read_config
from disco_mt.nn.find import check_device, find_model
from disco_mt.pins.parse import Pin
from disco_mt.pins.pinned import Neighbours, Pinned
from disco_mt.pins.place import beam_for
from disco_mt.pins.tokens import TokenPins, check_number, neighbours, problem, token_pins
from disco_mt.text.lines import well_formed
from disco_mt.text.pair import TextPair
from disco_mt.text.sentences import split_sentences
from disco_mt.text.tokenizer import Tokenizer
from disco_mt.text.unknown import Aside, set_aside

DEFAULT_MODEL = "en-de"
NOBODY = "none"  # reads the candidates
BATCH_TOKENS = 2048  # padded source tokens that are decoded together

Long = Literal["split", "refuse"]
Ids = list[int]


@dataclass(frozen=True)
class Own:
    """How a model decodes best, as dev has chosen: extra.decoding in its config.json."""

    length_penalty: float | None = None
    length_weight: float | None = None
    rescore_with: str = NOBODY
    """Or "self": it ranks its candidates by reading them."""
    settle: Settle = ""
    """When it begins to read."""
    read: Read = ""
    """How it reads."""

    def check(self) -> None:
        """Refuse what no model can ask for."""
        one_of("rescore_with", self.rescore_with, (NOBODY, "self"))
        DecodingOptions(
            length_penalty=self.length_penalty,
            length_weight=self.length_weight,
            settle=self.settle,
            read=self.read,
        )


@dataclass(frozen=True)
class _Segment:
    """What is translated at once: a sentence, or a part of one that is too long."""

    ids: Ids
    aside: Aside | None = None  # what of it the model cannot read
    pins: TokenPins = ()


@dataclass(frozen=True)
class Translator:
    """A model and its tokenizers."""

    model: TranslationModel
    text: TextPair
    device: str = "cpu"
    rescorer: Reader | None = None
    engine: Engine | None = None  # what decodes where it can; None: the plain algorithms
    own: Own = Own()  # where nothing else is asked for
    reads: Reads = read_candidates  # how the rescorer does it

    @staticmethod
    def from_pretrained(
        name: str | Path = DEFAULT_MODEL,
        device: str = "cpu",
        rescore_with: str | Path = "",
        engine: str = "",
        precision: str = "",
        threads: int = 0,
        pruning: Pruning | None = None,
    ) -> Translator:
        """`name`: a shipped model, a model directory, or the id of a model on the hub ("owner/model").

        rescore_with: another model, or "self", that reads the length candidates left to right and picks one;
            "none": the most confident one is taken; "": the model's own choice, which dev has made.
        engine: "incremental" (disco models on a CPU: the same results as the plain algorithms, with less
            work), "ctranslate2" (autoregressive models), "reference" (the plain algorithms); "": the fastest.
        precision: "fp32" or "int8", if the engine has it; "": fp32. Pinned words and traces are always fp32.
        threads: for the whole process; 0: what is fastest for a model of this size, found out once.
        pruning: work that the incremental engine may leave out at a price; None: nothing.
        """
        directory = read_config(find_model(name))
        text = TextPair.load(directory.path, directory.text)
        _check_vocabulary(directory, text)
        model = load_weights(directory).to(check_device(device))
        own = _own(directory)
        rescorer = _rescorer(directory, model, str(rescore_with) or own.rescore_with)
        chosen = make_engine(model, text.vocabularies, device, engine, precision, threads, pruning)
        return Translator(model, text, device, rescorer, chosen, own)

    def translate(
        self,
        texts: Sequence[str],
        strategy: str = "",
        iterations: int = 10,
        length_beam: int = 5,
        beam: int = 5,
        length_penalty: float | None = None,
        length_weight: float | None = None,
        settle: Settle = "",
        read: Read = "",
        split: bool = False,
        long: Long = "split",
        trace: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Callable[[int], None] | None = None,
        pinned: Sequence[Sequence[Pin]] | None = None,
        on_pass: OnPass[str] | None = None,
    ) -> list[Translation]:
        """One translation a text, in order; an empty text gives an empty translation.

        split: cut each text into sentences first (they come back as `parts`).
        long: a sentence longer than the model reads is cut up ("split") or comes back with `refused` set.
        trace: keep every pass; sentences are then decoded one at a time.
        batch_tokens: padded source tokens that are decoded together; 1: one sentence at a time.
        progress: called with the number of sentences done since the last call.
        pinned: words that the translations must contain, a list a text; a text whose pins cannot be kept
            comes back with `refused` set. `Pin.sentence` counts the `parts`.
        on_pass: called with every pass as it happens; sentences are then decoded one at a time.
        """
        options = DecodingOptions(
            strategy, iterations, length_beam, beam, length_penalty, length_weight, settle, read
        )
        given = [()] * len(texts) if pinned is None else pinned
        check_number(given, len(texts))
        segments = [self._segments(text, split, long, pins) for text, pins in zip(texts, given, strict=True)]
        flat = [each for parts in segments if not isinstance(parts, str) for each in parts]
        ids, pins = [each.ids for each in flat], [each.pins for each in flat]
        told = None if on_pass is None else numbered_passes(on_pass, segments)
        language = self.text.target.language
        translated = self.translate_ids(ids, options, trace, batch_tokens, progress, pins, told)
        done = iter(restored(each, segment.aside) for each, segment in zip(translated, flat, strict=True))
        return [
            refusal(parts) if isinstance(parts, str) else joined([next(done) for _ in parts], language)
            for parts in segments
        ]

    def translate_ids(
        self,
        sentences: Sequence[Ids],
        options: DecodingOptions,
        trace: bool = False,
        batch_tokens: int = BATCH_TOKENS,
        progress: Callable[[int], None] | None = None,
        pinned: Sequence[TokenPins] | None = None,
        on_pass: OnPass[str] | None = None,
    ) -> list[Translation]:
        """Sentences as source ids without EOS, batched by length; results in the order given.

        A sentence longer than the model reads, or whose pins cannot be kept, comes back with `refused` set.
        """
        strategy_for(self.model.config.kind, options.strategy)  # refuse before any work
        options = self._with_own(options)
        at_least("batch_tokens", batch_tokens, 1)
        pins = [()] * len(sentences) if pinned is None else pinned
        if any(pins):
            check_pinnable(self.model.config.kind, options.strategy)
        refused = {
            i: self._too_long(len(ids)) or problem(pins[i], self.model.config)
            for i, ids in enumerate(sentences)
        }
        results = {i: refusal(refused[i]) for i, ids in enumerate(sentences) if refused[i] or not ids}
        if self._has_engine_for(options) and not (trace or on_pass):
            free = [i for i in range(len(sentences)) if i not in results and not pins[i]]
            results |= self._by_engine(sentences, free, options, batch_tokens, progress)
        # A trace shows what a lone sentence does to the last bit: batches round differently, and a tie of
        # probabilities within rounding could then show another order.
        for batch in self._batches(
            sentences, pins, options, results, 1 if trace or on_pass else batch_tokens
        ):
            source = self._tensor([sentences[i] for i in batch])
            told = None if on_pass is None else named_passes(on_pass, batch, self.text.target)
            hypotheses = decode(self.model, source, options, trace, self._pinned(pins, batch), told)
            if (reader := self._reader(options)) is not None:
                hypotheses = rescore(
                    reader, source, hypotheses, options.weight, options.both_ways, self.reads
                )
            results |= {i: named(h, self.text.target) for i, h in zip(batch, hypotheses, strict=True)}
            if progress is not None:
                progress(len(batch))
        return [results[i] for i in range(len(sentences))]

    def _with_own(self, options: DecodingOptions) -> DecodingOptions:
        """The model's own way where nothing else is asked for; all but the penalty is for its own reading."""
        penalty, reads = options.length_penalty, self._reader(options) is self.model
        own = self.own if reads else Own()
        return replace(
            options,
            length_penalty=self.own.length_penalty if penalty is None else penalty,
            length_weight=own.length_weight if options.length_weight is None else options.length_weight,
            settle=options.settle or own.settle,
            read=options.read or own.read,
        )

    def _reader(self, options: DecodingOptions) -> Reader | None:
        """Who ranks the candidates. A model that has written them left to right need not read them again."""
        written = options.strategy == "autoregressive" and self.rescorer is self.model
        return None if written else self.rescorer

    def _has_engine_for(self, options: DecodingOptions) -> bool:
        """Is there an engine that knows the strategy? One of lower precision must: the user asked for it."""
        if self.engine is None or self.engine.fits(options):
            return self.engine is not None
        if self.engine.precision != "fp32":
            raise UserError(
                f"strategy {options.strategy!r} has no precision {self.engine.precision}; it has: fp32"
            )
        return False

    def _by_engine(
        self,
        sentences: Sequence[Ids],
        places: list[int],
        options: DecodingOptions,
        batch_tokens: int,
        progress: Callable[[int], None] | None,
    ) -> dict[int, Translation]:
        """The sentences at these places, through the engine."""
        assert self.engine is not None
        found: dict[int, Hypothesis[int]] = {}
        reader = self._reader(options)
        given = [sentences[i] for i in places], options, batch_tokens, reader is self.model
        for number, hypothesis in self.engine.decode(*given):
            read = hypothesis.readings
            found[places[number]] = pick([hypothesis], [read], options.weight)[0] if read else hypothesis
            if progress is not None:
                progress(1)
        if reader is not None:
            unread = [i for i in places if not found[i].readings]
            for batch in _batches(sentences, unread, batch_tokens):
                source, made = self._tensor([sentences[i] for i in batch]), [found[i] for i in batch]
                made = rescore(reader, source, made, options.weight, options.both_ways, self.reads)
                found |= dict(zip(batch, made, strict=True))
        return {i: named(hypothesis, self.text.target) for i, hypothesis in found.items()}

    @cached_property
    def longest_source(self) -> int:
        """The most tokens of a sentence, EOS apart, that the model reads."""
        return self.model.config.max_source - 1

    @cached_property
    def _neighbours(self) -> Neighbours:
        return neighbours(self.text.target, self.device)

    def _pinned(self, pins: Sequence[TokenPins], batch: list[int]) -> Pinned | None:
        """The pins of a batch, if it has any."""
        chosen = tuple(pins[i] for i in batch)
        return Pinned(chosen, self._neighbours) if any(chosen) else None

    def _batches(
        self,
        sentences: Sequence[Ids],
        pins: Sequence[TokenPins],
        options: DecodingOptions,
        done: Container[int],
        tokens: int,
    ) -> list[list[int]]:
        """Batches of sentences not yet done. Where pins leave fewer lengths than usual, one is alone."""
        longest = self.model.config.longest_target
        left = {i for i in range(len(sentences)) if i not in done}
        if tokens == 1:
            return [[i] for i in sorted(left)]
        usual = beam_for((), options.length_beam, longest)
        alone = {i for i in left if pins[i] and beam_for(pins[i], options.length_beam, longest) != usual}
        return _batches(sentences, sorted(left - alone), tokens) + [[i] for i in sorted(alone)]

    def _segments(self, text: str, split: bool, long: Long, pins: Sequence[Pin]) -> list[_Segment] | str:
        """What is translated one by one, with its pins. A string says why a text is refused."""
        pieces = self._sentences(text, split, long)
        if isinstance(pieces, str):
            return pieces
        found = token_pins(pins, len(pieces), self.text.target, self.model.config)
        if isinstance(found, str):
            return found
        return [replace(piece, pins=each) for piece, each in zip(pieces, found, strict=True)]

    def _sentences(self, text: str, split: bool, long: Long) -> list[_Segment] | str:
        """Sentences as ids. A string says why a text is refused."""
        tokenizer = self.text.source
        sentences = split_sentences(text, tokenizer.language) if split else [text]
        pieces: list[_Segment] = []
        for sentence in _encoded(sentences, tokenizer):
            if len(sentence.ids) <= self.longest_source:
                pieces.append(sentence)
            elif long == "split":
                pieces += _cut_sentence(sentence, tokenizer, self.longest_source)
            else:
                return self._too_long(len(sentence.ids))
        return [piece for piece in pieces if piece.ids or piece.aside]

    def _too_long(self, tokens: int) -> str:
        """Why a sentence of so many tokens cannot be read; "" if it can."""
        if tokens <= self.longest_source:
            return ""
        return f"a sentence has {tokens} tokens, but the model reads at most {self.longest_source}"

    def _tensor(self, sentences: list[Ids]) -> Tensor:
        width = max(len(ids) for ids in sentences) + 1
        rows = [[*ids, EOS, *[PAD] * (width - 1 - len(ids))] for ids in sentences]
        return torch.tensor(rows, device=self.device)


def _rescorer(directory: Directory, model: TranslationModel, name: str) -> Reader | None:
    """The model that rescores: the same weights ("self"), another model of the same vocabulary, or "none"."""
    if name == NOBODY:
        return None
    if directory.model.kind == "autoregressive":
        raise UserError("an autoregressive model has no length candidates to rescore; rescore disco or cmlm")
    other: TranslationModel = model
    if name != "self":
        chosen = read_config(find_model(name))
        check_same_vocabulary(directory.text, chosen.text)
        other = load_weights(chosen).to(next(model.parameters()).device)
    if not isinstance(other, Reader):
        raise UserError(f"a model of kind {other.config.kind} cannot rescore; use disco or autoregressive")
    return other


def _own(directory: Directory) -> Own:
    """What dev has chosen for the model, if it says so."""
    where, chosen = f"{directory.path / CONFIG}: extra.decoding", directory.extra.get("decoding", {})
    if not isinstance(chosen, dict):
        raise UserError(f"{where} must be a table, got {chosen!r}")
    own = from_dict(Own, chosen, where)
    try:
        own.check()
    except UserError as error:
        raise UserError(f"{where}: {error}") from None
    return own


def _check_vocabulary(directory: Directory, text: TextPair) -> None:
    sides = (
        ("source", directory.model.source_vocabulary, text.source.vocabulary_size),
        ("target", directory.model.target_vocabulary, text.target.vocabulary_size),
    )
    for side, rows, size in sides:
        if rows != size:
            raise UserError(
                f"{directory.path}: the {side} tokenizer has {size} tokens, but the weights have {rows}; "
                "it belongs to another model"
            )


def _encoded(sentences: list[str], tokenizer: Tokenizer) -> list[_Segment]:
    """Sentences as ids; what the vocabulary does not have is set aside, to be copied."""
    segments = [_Segment(ids) for ids in tokenizer.encode_batch(sentences)]
    for number, sentence in enumerate(sentences):
        if unknown := UNK in segments[number].ids and tokenizer.unknown_spans(sentence):
            aside = set_aside(well_formed(sentence), unknown)
            segments[number] = _Segment(tokenizer.encode(aside.known), aside)
    return segments


def _cut_sentence(sentence: _Segment, tokenizer: Tokenizer, longest: int) -> list[_Segment]:
    """Parts that are short enough. What was set aside goes to the end: its place is not known any more."""
    *parts, last = (_Segment(ids) for ids in _cut(sentence.ids, tokenizer, longest))
    if sentence.aside is None:
        return [*parts, last]
    copied = " ".join(sentence.aside.copied)
    return [*parts, replace(last, aside=Aside(copied, ((0, len(copied)),)))]


def _cut(ids: Ids, tokenizer: Tokenizer, longest: int) -> list[Ids]:
    """Pieces of at most `longest` tokens, cut before a word where one begins in the second half."""
    pieces = []
    while len(ids) > longest:
        surfaces = tokenizer.pieces(ids[: longest + 1])
        starts = [n for n in range(longest // 2, longest + 1) if surfaces[n].startswith(" ")]
        end = max(1, starts[-1] if starts else longest)
        pieces.append(ids[:end])
        ids = ids[end:]
    return [*pieces, ids]


def _batches(sentences: Sequence[Ids], places: Sequence[int], tokens: int) -> list[list[int]]:
    """The sentences at `places`, long ones first, at most `tokens` padded tokens together."""
    batches: list[list[int]] = []
    widest = 0
    for place in sorted(places, key=lambda place: -len(sentences[place])):
        if not batches or (len(batches[-1]) + 1) * widest > tokens:
            batches.append([])
            widest = len(sentences[place]) + 1
        batches[-1].append(place)
    return batches
