"""Sentences in, translations out: a translator as the worker uses it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol

from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import OnPass, Translation
from disco_mt.pins.parse import Pin
from disco_mt.serve.invariant import BatchInvariant
from disco_mt.translator import Translator


@dataclass(frozen=True)
class Sentence:
    text: str
    pins: tuple[Pin, ...] = ()


@dataclass(frozen=True)
class Batch:
    sentences: Sequence[Sentence]
    options: DecodingOptions
    trace: bool = False


class Decoder(Protocol):
    """What translates: in this process, or in another one (process.py)."""

    @property
    def rows(self) -> int:
        """Target positions predicted so far."""
        ...

    def translate(self, batch: Batch, on_pass: OnPass[str] | None = None) -> list[Translation]:
        """One translation per sentence, each to the last bit as if it were alone."""
        ...

    def close(self) -> None:
        """Nothing more will be asked."""
        ...


@dataclass(frozen=True)
class LocalDecoder:
    translator: Translator

    @property
    def rows(self) -> int:
        """By the plain algorithms, and by an engine that counts."""
        work = getattr(self.translator.engine, "work", None)
        return self.translator.model.predicted + (0 if work is None else int(work.rows))

    def translate(self, batch: Batch, on_pass: OnPass[str] | None = None) -> list[Translation]:
        """See Decoder."""
        pins = [sentence.pins for sentence in batch.sentences]
        request = DecodeRequest(
            pins=pins if any(pins) else None,
            trace=batch.trace,
            on_pass=on_pass,
            batch_tokens=1 << 30,  # what comes here together is decoded together
        )
        with BatchInvariant() if self.translator.device == "cpu" else nullcontext():
            return self.translator.translate(
                [sentence.text for sentence in batch.sentences],
                batch.options,
                request,
                long="refuse" if request.watched else "split",
            )

    def warm_up(self) -> None:
        """The first translation is slow; no client should have to wait for it."""
        self.translate(Batch([Sentence("Hello.")], DecodingOptions(iterations=2)))

    def close(self) -> None:
        """See Decoder."""
