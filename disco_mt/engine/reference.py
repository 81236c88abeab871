"""The plain algorithms (systems/*/decoding.py) as an engine: any model, any device; the specification."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from disco_mt.decoding.batching import batches, with_eos
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Hypothesis, OnPass, Pass
from disco_mt.nn.base import TranslationModel
from disco_mt.pins.pinned import Neighbours
from disco_mt.pins.place import Pinned, beam_for
from disco_mt.systems import decoder_for

Ids = Sequence[int]


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
