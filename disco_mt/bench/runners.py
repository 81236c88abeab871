"""An entry at work, inside its own process: sentences in, outcomes out.

Where weights are random, lengths are forced (`ForcedLengths`, CTranslate2's minimum and maximum), and
Algorithm 1 follows a structure: the plain one in its passes, the incremental engine in its rows, too.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.bench.entries import Entry, Weights
from disco_mt.bench.sentences import Sentence, narrowed
from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import BOS, EOS, MASK, PAD, SPECIAL_TOKENS
from disco_mt.decoding.batching import with_eos
from disco_mt.decoding.length_beam import Candidates, candidates_at, predict
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.recorder import Recorder
from disco_mt.decoding.results import Hypothesis
from disco_mt.engine.ctranslate2 import CTranslate2Engine
from disco_mt.engine.incremental import IncrementalEngine, Work
from disco_mt.engine.select import check_int8, make_runtime
from disco_mt.engine.shortlist import Shortlist
from disco_mt.engine.skipping import Driven, Structure
from disco_mt.nn.base import ParallelModel, TranslationModel
from disco_mt.nn.directory import read_config
from disco_mt.nn.encoder import Encoded
from disco_mt.systems import decode, decoder_for
from disco_mt.systems.build import build_model, load_weights
from disco_mt.systems.disco.model import DisCo
from disco_mt.systems.system import Order
from disco_mt.text.pair import TextPair

Ids = list[int]
Decoded = tuple[tuple[int, ...], Work]  # words and what they took


@dataclass(frozen=True)
class Outcome:
    words: int  # of the translation, EOS apart
    source: int  # tokens, EOS included
    work: Work  # rows: a position of a candidate in a pass; passes: the paper's Step
    text: str = ""


class Runner(ABC):
    """Translates batches of sentences; tokenisation is part of it, random ids need none."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        path = Path(entry.weights.path)
        self.text = TextPair.load(path, read_config(path).text) if entry.weights.path else None

    def translate(self, sentences: Sequence[Sentence]) -> list[Outcome]:
        sources = self._ids(sentences)
        decoded = self.decode(sources, sentences)
        return [
            Outcome(len(words), len(ids) + 1, work, self.text.target.decode(words) if self.text else "")
            for ids, (words, work) in zip(sources, decoded, strict=True)
        ]

    @abstractmethod
    def decode(self, sources: list[Ids], sentences: Sequence[Sentence]) -> list[Decoded]:
        """Source ids without EOS -> one translation per sentence."""

    def _ids(self, sentences: Sequence[Sentence]) -> list[Ids]:
        if self.text is None:
            return [list(sentence.source) for sentence in sentences]
        encoded = self.text.source.encode_batch([sentence.text for sentence in sentences])
        longest = self.entry.weights.config.longest_source
        for ids in encoded:
            if not 0 < len(ids) <= longest:
                raise UserError(
                    f"a sentence has {len(ids)} tokens, but the model reads 1 to {longest}; leave it out"
                )
        return encoded


class CTranslate2Runner(Runner):
    def __init__(self, entry: Entry, threads: int) -> None:
        super().__init__(entry)
        precision = "float32" if entry.precision == "fp32" else entry.precision
        path = Path(entry.weights.exported)
        self.engine = CTranslate2Engine(path, threads, precision, bool(entry.shortlist))

    def decode(self, sources: list[Ids], sentences: Sequence[Sentence]) -> list[Decoded]:
        beam, alpha = self.entry.options.beam, self.entry.options.alpha
        if sentences[0].words:
            decoded = [(words, len(words)) for words in self._forced(sources, sentences[0].words)]
        else:
            hypotheses = self.engine.translate(sources, beam, alpha, with_probabilities=False)
            decoded = [(each.tokens, each.steps) for each in hypotheses]
        return [(words, _every_row(steps, beam * steps)) for words, steps in decoded]

    def _forced(self, sources: list[Ids], words: int) -> list[tuple[int, ...]]:
        """Exactly so many words, and no step for EOS: one step fewer than a translation would need."""
        tokens = self.engine.source_tokens
        results = self.engine.translator.translate_batch(
            [[tokens[i] for i in (*ids, EOS)] for ids in sources],
            beam_size=self.entry.options.beam,
            min_decoding_length=words,
            max_decoding_length=words,
            max_input_length=0,
            disable_unk=True,
            suppress_sequences=[[SPECIAL_TOKENS[token]] for token in (BOS, PAD, MASK)],
            max_batch_size=0,
        )
        names = self.engine.target_ids
        return [tuple(names[token] for token in result.hypotheses[0]) for result in results]


class ReferenceRunner(Runner):
    def __init__(self, entry: Entry, threads: int) -> None:
        super().__init__(entry)
        self.model = load_model(entry.weights)

    @torch.inference_mode()
    def decode(self, sources: list[Ids], sentences: Sequence[Sentence]) -> list[Decoded]:
        hypotheses = self._hypotheses(with_eos(sources), sentences)
        decoded = []
        for each in hypotheses:
            words = sum(map(len, each.candidates or (each.tokens,)))
            decoded.append((each.tokens, _every_row(each.steps, each.steps * words)))
        return decoded

    def _hypotheses(self, source: Tensor, sentences: Sequence[Sentence]) -> list[Hypothesis[int]]:
        options = self.entry.options
        structures = structures_of(sentences, options.length_beam)
        if not structures:
            return decode(self.model, source, options)
        order = decoder_for(self.entry.kind, options.strategy).order
        forced = ForcedLengths(structures)
        if order is None:
            return decode(self.model, source, options, DecodeRequest(pins=forced))
        assert isinstance(self.model, ParallelModel)
        return refine(self.model, source, order, forced, max(each.passes for each in structures))


class IncrementalRunner(Runner):
    def __init__(self, entry: Entry, threads: int) -> None:
        super().__init__(entry)
        model = load_model(entry.weights)
        assert isinstance(model, DisCo)
        if entry.precision == "int8":
            check_int8(model.config)
        shortlist = Shortlist.load(Path(entry.shortlist)) if entry.shortlist else None
        runtime = make_runtime(model, entry.precision, threads)
        self.engine = IncrementalEngine(runtime, entry.precision, shortlist)

    def decode(self, sources: list[Ids], sentences: Sequence[Sentence]) -> list[Decoded]:
        options = self.entry.options
        structures = structures_of(sentences, options.length_beam)
        if structures:  # a batch has one structure
            self.engine.skipping = driven(structures[0])
            options = replace(options, iterations=max(options.iterations, structures[0].passes))
        request = DecodeRequest(batch_tokens=len(sources) * (max(map(len, sources)) + 1))
        finished = sorted(self.engine.finished(sources, options, request), key=lambda each: each.index)
        return [(each.hypothesis.tokens, each.work) for each in finished]


_RUNNERS: dict[str, Callable[[Entry, int], Runner]] = {
    "ctranslate2": CTranslate2Runner,
    "reference": ReferenceRunner,
    "incremental": IncrementalRunner,
}


def load_runner(entry: Entry, threads: int) -> Runner:
    torch.set_num_threads(threads)
    return _RUNNERS[entry.engine](entry, threads)


def computes_in_torch(entry: Entry) -> bool:
    """Does torch do the arithmetic? Then threads can be changed without loading anew."""
    return entry.engine != "ctranslate2" and entry.precision == "fp32"


def load_model(weights: Weights) -> TranslationModel:
    if weights.path:
        return load_weights(read_config(Path(weights.path)))
    return build_model(weights.config).eval()


def _every_row(steps: int, rows: int) -> Work:
    return Work(1, steps, rows, rows, rows)


def structures_of(sentences: Sequence[Sentence], beam: int) -> list[Structure]:
    """How the decoding of each sentence is driven; none where it is free."""
    return [narrowed(each.structure, beam) for each in sentences if each.structure is not None]


@functools.cache
def driven(structure: Structure) -> Driven:
    """Made once: it is no part of the work that is timed."""
    return Driven(structure)


class ForcedLengths:
    """Enters decoding where pins do: candidates have given lengths, whatever the model predicts."""

    def __init__(self, structures: Sequence[Structure]) -> None:
        self.lengths = torch.tensor([structure.lengths for structure in structures])  # (batch, K) words

    def candidates(self, model: ParallelModel, encoded: Encoded, options: DecodingOptions) -> Candidates:
        return candidates_at(encoded, self.lengths, torch.zeros(self.lengths.shape))

    def passes(self, model: ParallelModel) -> list[int]:
        """Nothing is pinned, so there is nothing to place."""
        return [0] * len(self.lengths)


def refine(
    model: ParallelModel, source: Tensor, order: Order, forced: ForcedLengths, passes: int
) -> list[Hypothesis[int]]:
    """Algorithm 1 (decoding/refinement.py) with a given number of passes, whether or not the words change."""
    candidates = forced.candidates(model, model.encode(source), DecodingOptions())
    now = predict(model, candidates, candidates.blank(), context.nothing(candidates.words, candidates.eos))
    visible = order(now.log_probs, candidates.words, candidates.eos, None)
    winner = candidates.scores(now.log_probs).argmax(dim=1)
    for _ in range(passes - 1):
        now = predict(model, candidates, now.ids, visible)
        winner = candidates.scores(now.log_probs).argmax(dim=1)
    recorder = Recorder("", len(source), DecodeRequest())
    recorder.finish(candidates, torch.ones_like(winner, dtype=torch.bool), now, winner, passes)
    return recorder.results()
