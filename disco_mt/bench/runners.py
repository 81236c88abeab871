"""A system at work, inside its own process: sentences in, outcomes out.

Random weights would decode to random lengths in random numbers of passes. So there the length is forced
(`ForcedLengths`, and CTranslate2's minimum and maximum), and easy-first makes a given number of passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from disco_mt import context
from disco_mt.bench.sentences import Outcome, Sentence
from disco_mt.bench.system import System
from disco_mt.decoding.easy_first import easy_first
from disco_mt.decoding.length_beam import length_candidates, predict
from disco_mt.decoding.mask_predict import mask_predict
from disco_mt.decoding.translation import Hypothesis
from disco_mt.engine.ctranslate2 import CTranslate2Engine
from disco_mt.errors import UserError
from disco_mt.models.base import TranslationModel
from disco_mt.models.build import build_model
from disco_mt.models.cmlm import CMLM
from disco_mt.models.directory import load_weights, read_config
from disco_mt.models.disco import DisCo
from disco_mt.models.length import LengthPredictor
from disco_mt.special import BOS, EOS, MASK, PAD, SPECIAL_TOKENS
from disco_mt.text.pair import TextPair

Ids = list[int]


class Runner(Protocol):
    """What all of them can."""

    def translate(self, sentences: Sequence[Sentence]) -> list[Outcome]:
        """A batch."""
        ...


def load_runner(system: System, threads: int, passes: int) -> Runner:
    """Load the weights; from here on the clock may run. passes: of easy-first where weights are random."""
    torch.set_num_threads(threads)
    match system.runtime:
        case "ctranslate2":
            return CTranslate2Runner(system, threads)
        case "plain":
            return PlainRunner(system, passes)
        case "incremental":
            raise NotImplementedError


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
        self.engine = CTranslate2Engine(Path(system.weights.exported), threads, system.precision)

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

    def __init__(self, system: System, passes: int) -> None:
        self.system, self.passes, self.text = system, passes, Text(system)
        self.model = load_model(system)

    @torch.inference_mode()
    def translate(self, sentences: Sequence[Sentence]) -> list[Outcome]:
        """One batch, padded."""
        sources = self.text.ids(sentences)
        force_lengths(self.model, sentences)
        hypotheses = self._decode(padded(sources), bool(sentences[0].words))
        return [self._outcome(*both) for both in zip(sources, hypotheses, strict=True)]

    def _decode(self, source: Tensor, driven: bool) -> list[Hypothesis[int]]:
        model, beam = self.model, self.system.length_beam
        if isinstance(model, CMLM):
            return mask_predict(model, source, self.system.iterations, beam)
        assert isinstance(model, DisCo)
        if driven:
            return easy_first_passes(model, source, beam, self.passes)
        return easy_first(model, source, self.system.iterations, beam)

    def _outcome(self, source: Ids, found: Hypothesis[int]) -> Outcome:
        rows = found.steps * sum(map(len, found.candidates))
        text = self.text.text(found.tokens)
        return Outcome(len(found.tokens), found.steps, rows, rows, rows, len(source) + 1, text)


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
    """Trained weights, or random ones that can be told a length."""
    if system.weights.path:
        return load_weights(read_config(Path(system.weights.path)))
    model = build_model(system.weights.config).eval()
    if model.encoder.length is not None:
        model.encoder.length = ForcedLengths(model.encoder.length)
    return model


class ForcedLengths(LengthPredictor):
    """Costs what a length predictor costs, but the lengths nearest to `words` are the likeliest."""

    def __init__(self, real: LengthPredictor) -> None:
        super().__init__(*real.weight.shape)
        self.weight = real.weight
        self.words = torch.zeros(1, dtype=torch.long)  # (batch,)

    def log_probs(self, slot: Tensor) -> Tensor:
        """As the real one, pulled towards the wanted length."""
        found = super().log_probs(slot)
        words = torch.arange(found.shape[1]) - 1  # a class counts EOS
        return found - 100.0 * (words - self.words[:, None]).abs()


def force_lengths(model: TranslationModel, sentences: Sequence[Sentence]) -> None:
    """Tell the next batch's lengths to a model of random weights."""
    if isinstance(model.encoder.length, ForcedLengths):
        model.encoder.length.words = torch.tensor([sentence.words for sentence in sentences])


def padded(sources: list[Ids]) -> Tensor:
    """With EOS: (batch, longest + 1)."""
    width = max(map(len, sources)) + 1
    return torch.tensor([[*ids, EOS, *[PAD] * (width - 1 - len(ids))] for ids in sources])


def weight_bytes(runner: Any) -> int:
    """Size of the weights in memory; 0 where a runtime does not say."""
    model = getattr(runner, "model", None)
    if not isinstance(model, TranslationModel):
        return 0
    return sum(each.numel() * each.element_size() for each in model.parameters())
