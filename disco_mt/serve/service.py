"""What all routes share, and the way of a request: checked, queued, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.requests import ClientDisconnect, Request

from disco_mt.decoding.results import Translation
from disco_mt.serve.access import Access, Keys
from disco_mt.serve.http_errors import HttpError, deadline_passed
from disco_mt.serve.limits import Limits
from disco_mt.serve.models import Models
from disco_mt.serve.monitoring import Metrics
from disco_mt.serve.worker import Job, Worker

LIMITS, NO_KEYS, OWN_PAGE = Limits(), Keys(), Access()


class Service:
    def __init__(
        self, models: Models, limits: Limits = LIMITS, keys: Keys = NO_KEYS, access: Access = OWN_PAGE
    ) -> None:
        """The worker does not start before `worker.start`."""
        self.models = models
        self.limits = limits
        self.keys = keys
        self.access = access
        self.metrics = Metrics()
        self.worker = Worker(limits, self.metrics)
        self.metrics.queue.set_function(lambda: self.worker.queued)

    def check_size(self, texts: Sequence[str], trace: bool = False) -> None:
        limit = self.limits.trace_characters if trace else self.limits.characters
        characters = sum(map(len, texts))
        if characters > limit:
            passes = " where every pass is wanted" if trace else ""
            raise HttpError(413, f"the texts have {characters} characters; the limit is {limit}{passes}")

    async def translate(self, request: Request, job: Job) -> list[Translation]:
        """The job's translations. A client that disconnects or whose deadline passes leaves the queue."""
        self.worker.submit(job)
        done = asyncio.ensure_future(asyncio.wrap_future(job.done))
        left = asyncio.ensure_future(_disconnected(request))
        try:
            either: set[asyncio.Future[Any]] = {done, left}
            await asyncio.wait(either, timeout=self.limits.deadline, return_when=asyncio.FIRST_COMPLETED)
            if done.done():
                return done.result()
            raise ClientDisconnect if left.done() else deadline_passed(self.limits.deadline)
        finally:
            left.cancel()
            done.cancel()  # and with it the job, if it still waits


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
