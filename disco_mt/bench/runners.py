"""A system at work, inside its own process: sentences in, outcomes out.

Where weights are random, lengths are forced (`ForcedLengths`, CTranslate2's minimum and maximum), and
easy-first follows a structure: the plain one in its number of passes, the engine in its rows, too.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.bench.sentences import Outcome, Sentence
from disco_mt.bench.structures import narrowed
from disco_mt.bench.system import System
from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import BOS, EOS, MASK, PAD, SPECIAL_TOKENS
from disco_mt.decoding.length_beam import length_candidates, predict
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Hypothesis
from disco_mt.engine.ctranslate2 import CTranslate2Engine
from disco_mt.engine.incremental import Finished, IncrementalEngine
from disco_mt.engine.select import check_int8, make_runtime
from disco_mt.engine.shortlist import Shortlist
from disco_mt.engine.skipping import Driven, Structure
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.directory import read_config
from disco_mt.nn.length import LengthPredictor, PooledLength
from disco_mt.systems import decode
from disco_mt.systems.build import build_model, load_weights
from disco_mt.systems.disco.model import DisCo
from disco_mt.text.pair import TextPair

Ids = list[int]


class Runner(Protocol):
    """What all of them can."""

    def translate(self, sentences: Sequence[Sentence]) -> list[Outcome]:
        """A batch."""
        ...


def load_runner(system: System, threads: int) -> Runner:
    """Load the weights; from here on the clock may run."""
    torch.set_num_threads(threads)
    match system.runtime:
        case "ctranslate2":
            return CTranslate2Runner(system, threads)
        case "plain":
            return PlainRunner(system)
        case "incremental":
            return IncrementalRunner(system, threads)


def computes_in_torch(system: System) -> bool:
    """Does torch do the arithmetic? Then threads can be changed without loading anew."""
    return system.runtime == "plain" or (system.runtime == "incremental" and system.precision == "fp32")


class Text:
    """Tokenisation, which the clock includes; random ids need none."""

    def __init__(self, system: System) -> None:
        config, path = system.weights.config, Path(system.weights.path)
        self.pair = TextPair.load(path, read_config(path).text) if system.weights.path else None
        self.longest = config.max_source - 1

    def ids(self, sentences: Sequence[Sentence]) -> list[Ids]:
        """Source ids without EOS."""
        if self.pair is None:
            return [list(sentence.source) for sentence in sentences]
        found = self.pair.source.encode_batch([sentence.text for sentence in sentences])
        for ids in found:
            if not 0 < len(ids) <= self.longest:
                raise UserError(
                    f"a sentence has {len(ids)} tokens, but the model reads 1 to {self.longest}; leave it out"
                )
        return found

    def text(self, words: Sequence[int]) -> str:
        """The translation as text; "" where words are random."""
        return "" if self.pair is None else self.pair.target.decode(words)


class CTranslate2Runner:
    """Our autoregressive weights in CTranslate2."""

    def __init__(self, system: System, threads: int) -> None:
        self.system, self.text = system, Text(system)
        precision = "float32" if system.precision == "fp32" else system.precision
        shortlist = bool(system.shortlist)
        self.engine = CTranslate2Engine(Path(system.weights.exported), threads, precision, shortlist)

    def translate(self, sentences: Sequence[Sentence]) -> list[Outcome]:
        """Scores are the engine's own: no second pass."""
        sources, beam = self.text.ids(sentences), self.system.beam
        if sentences[0].words:
            found = self._forced(sources, sentences[0].words)
        else:
            hypotheses = self.engine.translate(sources, beam, 1.0, with_probabilities=False)
            found = [(each.tokens, each.steps) for each in hypotheses]
        return [
            Outcome(
                len(words),
                steps,
                beam * steps,
                beam * steps,
                beam * steps,
                len(ids) + 1,
                self.text.text(words),
            )
            for ids, (words, steps) in zip(sources, found, strict=True)
        ]

    def _forced(self, sources: list[Ids], words: int) -> list[tuple[tuple[int, ...], int]]:
        """Exactly so many words, and no step for EOS: one step fewer than a translation would need."""
        tokens = self.engine.source_tokens
        results = self.engine.translator.translate_batch(
            [[tokens[i] for i in (*ids, EOS)] for ids in sources],
            beam_size=self.system.beam,
            min_decoding_length=words,
            max_decoding_length=words,
            max_input_length=0,
            disable_unk=True,
            suppress_sequences=[[SPECIAL_TOKENS[token]] for token in (BOS, PAD, MASK)],
            max_batch_size=0,
        )
        names = self.engine.target_ids
        return [(tuple(names[token] for token in result.hypotheses[0]), words) for result in results]


class PlainRunner:
    """The readable decoders: easy-first, mask-predict."""

    def __init__(self, system: System) -> None:
        self.system, self.text = system, Text(system)
        self.model = load_model(system)

    @torch.inference_mode()
    def translate(self, sentences: Sequence[Sentence]) -> list[Outcome]:
        """One batch, padded."""
        sources, structures = self.text.ids(sentences), structures_of(sentences, self.system.length_beam)
        if structures:
            force_lengths(self.model, structures)
        hypotheses = self._decode(padded(sources), structures)
        return [self._outcome(*both) for both in zip(sources, hypotheses, strict=True)]

    def _decode(self, source: Tensor, structures: list[Structure]) -> list[Hypothesis[int]]:
        model = self.model
        beam = len(structures[0].lengths) if structures else self.system.length_beam
        if structures and isinstance(model, DisCo):
            return easy_first_passes(model, source, beam, max(each.passes for each in structures))
        return decode(model, source, DecodingOptions(iterations=self.system.iterations, length_beam=beam))

    def _outcome(self, source: Ids, found: Hypothesis[int]) -> Outcome:
        rows = found.steps * sum(map(len, found.candidates))
        text = self.text.text(found.tokens)
        return Outcome(len(found.tokens), found.steps, rows, rows, rows, len(source) + 1, text)


class IncrementalRunner:
    """The engine that skips what cannot matter."""

    def __init__(self, system: System, threads: int) -> None:
        self.system, self.text = system, Text(system)
        self.engine = load_engine(system, threads)

    def translate(self, sentences: Sequence[Sentence]) -> list[Outcome]:
        """All of them in flight together."""
        sources, structures = self.text.ids(sentences), structures_of(sentences, self.system.length_beam)
        iterations = self.system.iterations
        if structures:  # a batch has one structure
            self.engine.skipping = driven(structures[0])
            iterations = max(iterations, structures[0].passes)
        options = DecodingOptions("easy-first", iterations=iterations, length_beam=self.system.length_beam)
        request = DecodeRequest(batch_tokens=len(sources) * (max(map(len, sources)) + 1))
        finished = self.engine.finished(sources, options, request)
        found = sorted(finished, key=lambda each: each.index)
        return [self._outcome(sources[each.index], each) for each in found]

    def _outcome(self, source: Ids, found: Finished) -> Outcome:
        words, work = found.hypothesis.tokens, found.work
        steps, text = found.hypothesis.steps, self.text.text(words)
        return Outcome(len(words), steps, work.rows, work.keys, work.plain_rows, len(source) + 1, text)


@functools.cache
def driven(structure: Structure) -> Driven:
    """Made once: it is no part of the work that is timed."""
    return Driven(structure)


def load_engine(system: System, threads: int) -> IncrementalEngine:
    """The engine with the runtime of the system's precision."""
    model = load_model(system)
    assert isinstance(model, DisCo)
    if system.precision == "int8":
        check_int8(model.config)
    shortlist = Shortlist.load(Path(system.shortlist)) if system.shortlist else None
    return IncrementalEngine(make_runtime(model, system.precision, threads), system.precision, shortlist)


def structures_of(sentences: Sequence[Sentence], beam: int) -> list[Structure]:
    """How the decoding of each sentence is driven; none where it is free."""
    return [narrowed(each.structure, beam) for each in sentences if each.structure is not None]


def easy_first_passes(model: DisCo, source: Tensor, beam: int, passes: int) -> list[Hypothesis[int]]:
    """Algorithm 1 with a given number of passes, whether or not the words change."""
    candidates = length_candidates(model, model.encode(source), beam)
    now = predict(model, candidates, candidates.blank(), context.nothing(candidates.words, candidates.eos))
    order = context.easy_first_order(now.log_probs, candidates.words)
    visible = context.by_order(order, candidates.words, candidates.eos)
    winner = candidates.scores(now.log_probs).argmax(dim=1)
    for _ in range(passes - 1):
        now = predict(model, candidates, now.ids, visible)
        winner = candidates.scores(now.log_probs).argmax(dim=1)
    ids = now.ids.view(len(source), candidates.beam, -1).tolist()
    found = zip(ids, candidates.lengths.tolist(), winner.tolist(), strict=True)
    return [_hypothesis(rows, lengths, best, passes) for rows, lengths, best in found]


def _hypothesis(ids: list[Ids], lengths: list[int], winner: int, passes: int) -> Hypothesis[int]:
    words = tuple(tuple(row[:length]) for row, length in zip(ids, lengths, strict=True))
    return Hypothesis(words[winner], (), 0.0, passes, candidates=words)


def load_model(system: System) -> TranslationModel:
    """Trained weights, or random ones."""
    if system.weights.path:
        return load_weights(read_config(Path(system.weights.path)))
    return build_model(system.weights.config).eval()


class ForcedLengths(LengthPredictor):
    """Costs what a length predictor costs, but given lengths are the likeliest."""

    def __init__(self, real: LengthPredictor) -> None:
        super().__init__(*real.weight.shape)
        self.weight = real.weight
        self.wanted = torch.zeros(1, 1, dtype=torch.long)  # (batch, K) words

    def log_probs(self, slot: Tensor, prior: Tensor | None = None) -> Tensor:
        """As the real one, with the wanted lengths lifted to the top, in their order."""
        return _lifted(super().log_probs(slot, prior), self.wanted)


class ForcedPooled(PooledLength):
    """The same for models whose predictor reads the mean of the encoder's states."""

    def __init__(self, real: PooledLength) -> None:
        super().__init__(real.config)
        self.up, self.shift = real.up, real.shift
        self.wanted = torch.zeros(1, 1, dtype=torch.long)  # (batch, K) words

    def log_probs(self, memory: Tensor, real: Tensor) -> Tensor:
        """As the real one, with the wanted lengths lifted to the top, in their order."""
        return _lifted(super().log_probs(memory, real), self.wanted)


def _lifted(log_probs: Tensor, wanted: Tensor) -> Tensor:
    """Scores of the lengths, (batch, classes), with the wanted ones, (batch, K) words, far above the rest."""
    lift = torch.arange(wanted.shape[1], 0, -1, dtype=log_probs.dtype).expand(len(log_probs), -1)
    return log_probs.scatter_add(1, wanted + 1, 1000 * lift)  # a class counts EOS


def force_lengths(model: TranslationModel, structures: Sequence[Structure]) -> None:
    """Tell the next batch's lengths to a model of random weights."""
    wanted = torch.tensor([structure.lengths for structure in structures])
    if model.length is not None:
        if not isinstance(model.length, ForcedPooled):
            model.length = ForcedPooled(model.length)
        model.length.wanted = wanted
        return
    predictor = model.encoder.length
    assert predictor is not None
    if not isinstance(predictor, ForcedLengths):
        predictor = model.encoder.length = ForcedLengths(predictor)
    predictor.wanted = wanted


def padded(sources: list[Ids]) -> Tensor:
    """With EOS: (batch, longest + 1)."""
    width = max(map(len, sources)) + 1
    return torch.tensor([[*ids, EOS, *[PAD] * (width - 1 - len(ids))] for ids in sources])
