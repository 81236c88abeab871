"""The plain algorithms (systems/*/decoding.py) as an engine, for any model on any device.

They are the specification: every other engine must give the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

from disco_mt.core.errors import UserError
from disco_mt.decoding.batching import batches, with_eos
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Hypothesis, OnPass, Pass
from disco_mt.nn.base import TranslationModel
from disco_mt.pins.pinned import Neighbours
from disco_mt.pins.place import Pinned, beam_for
from disco_mt.systems import decoder_for

Ids = Sequence[int]


class Engine(Protocol):
    """Decodes with the plain algorithms, or gives the same results faster."""

    @property
    def name(self) -> str:
        """The name in `EngineOptions.engine`."""
        ...

    @property
    def precision(self) -> str:
        """fp32 or int8."""
        ...

    def supports(self, options: DecodingOptions, request: DecodeRequest) -> bool:
        """Can the engine decode this way?"""
        ...

    def decode(
        self, sentences: Sequence[Ids], options: DecodingOptions, request: DecodeRequest
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        """(index, hypothesis) of each sentence (source ids without EOS), as they are finished."""
        ...


class ReferenceEngine:
    """Decodes padded batches with a system's own decoder."""

    name = "reference"
    precision = "fp32"

    def __init__(self, model: TranslationModel, device: str, neighbours: Callable[[], Neighbours]) -> None:
        """neighbours: finds the tokens that may stand next to a pin; called when words are pinned."""
        self.model = model
        self.device = device
        self._find_neighbours = neighbours

    def supports(self, options: DecodingOptions, request: DecodeRequest) -> bool:
        return True

    def decode(
        self, sentences: Sequence[Ids], options: DecodingOptions, request: DecodeRequest
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        decoder = decoder_for(self.model.config.kind, options.strategy)
        for batch in self._batches(sentences, options, request):
            source = with_eos([sentences[index] for index in batch]).to(self.device)
            on_pass = None if request.on_pass is None else _renumbered(request.on_pass, batch)
            of_batch = replace(request, pins=self._pinned(request, batch), on_pass=on_pass)
            yield from zip(batch, decoder.run(self.model, source, options, of_batch), strict=True)

    def _batches(
        self, sentences: Sequence[Ids], options: DecodingOptions, request: DecodeRequest
    ) -> list[list[int]]:
        """A sentence whose pins leave fewer lengths than usual gets a batch of its own.

        So does every sentence that is traced: batches round differently, so near-ties of probabilities could
        come out in another order than for a single sentence.
        """
        indices = range(len(sentences))
        if request.watched:
            return [[index] for index in indices]
        pins = request.pins or [()] * len(sentences)
        longest = self.model.config.longest_target
        usual = beam_for((), options.length_beam, longest)
        alone = [i for i in indices if pins[i] and beam_for(pins[i], options.length_beam, longest) != usual]
        others = sorted(set(indices) - set(alone))
        return batches(sentences, others, request.batch_tokens) + [[index] for index in alone]

    def _pinned(self, request: DecodeRequest, batch: list[int]) -> Pinned | None:
        pins = tuple(request.pins[index] for index in batch) if request.pins else ()
        return Pinned(pins, self._neighbours) if any(pins) else None

    @cached_property
    def _neighbours(self) -> Neighbours:
        return self._find_neighbours()


def _renumbered(on_pass: OnPass[int], batch: list[int]) -> OnPass[int]:
    """Report passes with the index that their sentence has outside the batch."""

    def report(now: Pass[int]) -> None:
        on_pass(replace(now, sentence=batch[now.sentence]))

    return report


class WithFallback:
    """An engine, and the plain algorithms for what it cannot do."""

    def __init__(self, engine: Engine, reference: ReferenceEngine) -> None:
        self.engine = engine
        self.reference = reference
        self.name = engine.name
        self.precision = engine.precision

    @property
    def work(self) -> Any:
        """What the engine has computed so far, if it counts that."""
        return getattr(self.engine, "work", None)

    def supports(self, options: DecodingOptions, request: DecodeRequest) -> bool:
        """Everything, unless a lower precision was asked for that the fallback does not have."""
        return self.engine.supports(options, DecodeRequest()) or self.precision == "fp32"

    def decode(
        self, sentences: Sequence[Ids], options: DecodingOptions, request: DecodeRequest
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        """Sentences with pins, and requests that the engine does not support, go to the plain algorithms."""
        if not self.supports(options, request):
            raise UserError(f"strategy {options.strategy!r} has no precision {self.precision}; it has: fp32")
        pins = request.pins or [()] * len(sentences)
        able = self.engine.supports(options, replace(request, pins=None))
        fast = [index for index in range(len(sentences)) if able and not pins[index]]
        rest = sorted(set(range(len(sentences))) - set(fast))
        for engine, chosen in ((self.engine, fast), (self.reference, rest)):
            part = replace(request, pins=[pins[index] for index in chosen])
            for number, hypothesis in engine.decode([sentences[index] for index in chosen], options, part):
                yield chosen[number], hypothesis
