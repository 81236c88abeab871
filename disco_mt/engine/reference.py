"""The plain algorithms (systems/*/decoding.py) as an engine: any model, any device; the specification."""

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
    """What decodes: the plain algorithms, or something that gives the same results faster."""

    @property
    def name(self) -> str:
        """As `EngineOptions.engine` calls it."""
        ...

    @property
    def precision(self) -> str:
        """fp32 or int8."""
        ...

    def supports(self, options: DecodingOptions, request: DecodeRequest) -> bool:
        """Can it do this?"""
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
        """neighbours: gives the tokens that may stand beside a pin; asked for when words are pinned."""
        self.model = model
        self.device = device
        self._find_neighbours = neighbours

    def supports(self, options: DecodingOptions, request: DecodeRequest) -> bool:
        """Everything that the model's decoders can do."""
        return True

    def decode(
        self, sentences: Sequence[Ids], options: DecodingOptions, request: DecodeRequest
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        """See Engine."""
        decoder = decoder_for(self.model.config.kind, options.strategy)
        for batch in self._batches(sentences, options, request):
            source = with_eos([sentences[index] for index in batch]).to(self.device)
            on_pass = None if request.on_pass is None else _renumbered(request.on_pass, batch)
            of_batch = replace(request, pins=self._pinned(request, batch), on_pass=on_pass)
            yield from zip(batch, decoder.run(self.model, source, options, of_batch), strict=True)

    def _batches(
        self, sentences: Sequence[Ids], options: DecodingOptions, request: DecodeRequest
    ) -> list[list[int]]:
        """Where pins leave fewer lengths than usual, a sentence is alone.

        A trace shows what a lone sentence does to the last bit: batches round differently, and a tie of
        probabilities within rounding could then show another order.
        """
        every = range(len(sentences))
        if request.watched:
            return [[index] for index in every]
        pins = request.pins or [()] * len(sentences)
        longest = self.model.config.longest_target
        usual = beam_for((), options.length_beam, longest)
        alone = [i for i in every if pins[i] and beam_for(pins[i], options.length_beam, longest) != usual]
        others = sorted(set(every) - set(alone))
        return batches(sentences, others, request.batch_tokens) + [[index] for index in alone]

    def _pinned(self, request: DecodeRequest, batch: list[int]) -> Pinned | None:
        pins = tuple(request.pins[index] for index in batch) if request.pins else ()
        return Pinned(pins, self._neighbours) if any(pins) else None

    @cached_property
    def _neighbours(self) -> Neighbours:
        return self._find_neighbours()


def _renumbered(on_pass: OnPass[int], batch: list[int]) -> OnPass[int]:
    """Tell a pass with the number that its sentence has outside the batch."""

    def tell(now: Pass[int]) -> None:
        on_pass(replace(now, sentence=batch[now.sentence]))

    return tell


class WithFallback:
    """An engine, and the plain algorithms for what it cannot do."""

    def __init__(self, engine: Engine, reference: ReferenceEngine) -> None:
        self.engine = engine
        self.reference = reference
        self.name, self.precision = engine.name, engine.precision

    @property
    def work(self) -> Any:
        """What the engine has computed so far, if it counts."""
        return getattr(self.engine, "work", None)

    def supports(self, options: DecodingOptions, request: DecodeRequest) -> bool:
        """Everything; but who asked for a lower precision must get it."""
        return self.engine.supports(options, DecodeRequest()) or self.precision == "fp32"

    def decode(
        self, sentences: Sequence[Ids], options: DecodingOptions, request: DecodeRequest
    ) -> Iterator[tuple[int, Hypothesis[int]]]:
        """See Engine. Sentences with pins go to the plain algorithms where the engine cannot keep them."""
        if not self.supports(options, request):
            raise UserError(f"strategy {options.strategy!r} has no precision {self.precision}; it has: fp32")
        pins = request.pins or [()] * len(sentences)
        able = self.engine.supports(options, replace(request, pins=None))
        mine = [index for index in range(len(sentences)) if able and not pins[index]]
        rest = sorted(set(range(len(sentences))) - set(mine))
        for engine, chosen in ((self.engine, mine), (self.reference, rest)):
            its = replace(request, pins=[pins[index] for index in chosen])
            for number, hypothesis in engine.decode([sentences[index] for index in chosen], options, its):
                yield chosen[number], hypothesis
