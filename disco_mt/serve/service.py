"""What all routes share, and the way of a request: checked, queued, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodingOptions
from disco_mt.decoding.results import Pass, Translation
from disco_mt.pins.parse import Pin
from disco_mt.serve.decoder import Sentence
from disco_mt.serve.http_errors import Refusal, too_late
from disco_mt.serve.keys import Keys
from disco_mt.serve.limits import Limits
from disco_mt.serve.metrics import Metrics
from disco_mt.serve.middleware import Access, Gone
from disco_mt.serve.models import Models, ServedModel
from disco_mt.serve.worker import Job, Worker

LIMITS, NO_KEYS, OWN_PAGE = Limits(), Keys(), Access()

OnPass = Callable[[int, Pass[str]], None]


@dataclass(frozen=True)
class Service:
    """The models and everything round them."""

    models: Models
    limits: Limits
    keys: Keys
    access: Access
    metrics: Metrics
    worker: Worker

    @staticmethod
    def of(
        models: Models, limits: Limits = LIMITS, keys: Keys = NO_KEYS, access: Access = OWN_PAGE
    ) -> Service:
        """A service whose worker has not started yet."""
        metrics = Metrics()
        worker = Worker(limits, metrics)
        metrics.watch_queue(lambda: worker.queued)
        return Service(models, limits, keys, access, metrics, worker)

    def check_key(self, request: Request, in_body: str = "") -> None:
        """Refuse who has no key where one is needed: Authorization: Bearer, X-API-Key, or in the body."""
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        given = bearer.strip() if scheme.lower() == "bearer" else ""
        given = given or request.headers.get("x-api-key", "") or in_body
        if not self.keys.allow(given):
            raise Refusal(401, "an API key is needed", {"WWW-Authenticate": "Bearer"})

    def check_size(self, texts: Sequence[str], trace: bool = False) -> None:
        """Refuse more text than may be sent at once."""
        most = self.limits.trace_characters if trace else self.limits.characters
        found = sum(map(len, texts))
        if found > most:
            passes = " where every pass is wanted" if trace else ""
            raise Refusal(413, f"the texts have {found} characters, but {most} are the most{passes}")


@dataclass(frozen=True)
class Order:
    """Texts to translate with one model, cut into sentences."""

    model: ServedModel
    options: DecodingOptions
    texts: tuple[list[list[str]], ...]  # texts -> lines -> sentences
    pins: tuple[tuple[Pin, ...], ...]  # a tuple a text
    trace: bool = False

    @staticmethod
    def of(
        model: ServedModel,
        options: DecodingOptions,
        texts: Sequence[str],
        pins: Sequence[Sequence[Pin]] = (),
        trace: bool = False,
    ) -> Order:
        """Cut up the texts, and refuse pins of sentences that are not there."""
        lines = tuple(model.lines(text) for text in texts)
        order = Order(model, options, lines, tuple(map(tuple, pins)) or ((),) * len(texts), trace)
        for text, pinned in zip(lines, order.pins, strict=True):
            number = sum(map(len, text))
            for pin in pinned:
                if pin.sentence >= number:
                    raise UserError(f"a pin is for sentence {pin.sentence}, but the text has {number}")
        return order

    def sentences(self) -> list[Sentence]:
        """All sentences of all texts, each with its own pins."""
        return [
            Sentence(text, tuple(Pin(pin.text, pin.at) for pin in pins if pin.sentence == number))
            for lines, pins in zip(self.texts, self.pins, strict=True)
            for number, text in enumerate(sentence for line in lines for sentence in line)
        ]

    def job(self, on_pass: OnPass | None = None) -> Job:
        """What the worker is given."""
        return Job(self.model, self.options, self.sentences(), self.trace, on_pass)


async def fulfil(service: Service, request: Request, order: Order) -> list[Translation]:
    """Translations of all sentences. Who hangs up or passes the deadline leaves the queue."""
    job = order.job()
    service.worker.submit(job)
    answered = asyncio.ensure_future(asyncio.wrap_future(job.done))
    left = asyncio.ensure_future(_hung_up(request))
    try:
        both: set[asyncio.Future[Any]] = {answered, left}
        await asyncio.wait(both, timeout=service.limits.deadline, return_when=asyncio.FIRST_COMPLETED)
        if answered.done():
            return answered.result()
        raise Gone if left.done() else too_late(service.limits.deadline)
    finally:
        left.cancel()
        answered.cancel()  # and with it the job, if it still waits


async def _hung_up(request: Request) -> None:
    """Returns when the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
