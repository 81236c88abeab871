"""The streaming form: server-sent events, each pass as it happens, then the whole answer.

event: pass    {"text": 0, "sentence": 0, "step": 1, "winner": 0, "candidates": [...], ...}
event: result  as without `stream`
event: error   {"error": "..."}
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import StreamingResponse

from disco_mt.decoding.results import Pass
from disco_mt.serve.answers import pass_answer, whole_answer
from disco_mt.serve.http_errors import Refusal, failed, gone, too_late
from disco_mt.serve.service import Order, Service
from disco_mt.serve.worker import Job

Event = tuple[str, dict[str, Any]]


def stream(service: Service, order: Order) -> StreamingResponse:
    """Queue the order (or refuse it, while a status can still say so) and send what becomes of it.

    What waits to be sent is bounded: passes are few, and texts are short where every pass is wanted.
    """
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    loop, places, started = asyncio.get_running_loop(), _places(order), time.perf_counter()

    def tell(place: int, now: Pass[str]) -> None:
        if job.done.done():
            raise gone()  # ends the decoding of a sentence that nobody waits for
        text, sentence = places[place]
        shown = {"text": text, "sentence": sentence, **pass_answer(order.model, now)}
        loop.call_soon_threadsafe(events.put_nowait, ("pass", shown))

    job = order.job(tell)
    service.worker.submit(job)
    job.done.add_done_callback(lambda _: loop.call_soon_threadsafe(events.put_nowait, None))

    async def sent() -> AsyncIterator[str]:
        try:
            while True:
                left = service.limits.deadline - (time.perf_counter() - started)
                event = await asyncio.wait_for(events.get(), max(left, 0))
                if event is None:
                    break
                yield _written(*event)
            yield _written(*_last(order, job, started))
        except TimeoutError:
            yield _written("error", {"error": too_late(service.limits.deadline).message})
        finally:
            job.done.cancel()

    return StreamingResponse(sent(), media_type="text/event-stream")


def _last(order: Order, job: Job, started: float) -> Event:
    """The result, or why there is none."""
    try:
        found = job.done.result(timeout=0)
    except Refusal as refusal:
        return "error", {"error": refusal.message}
    except (Exception, asyncio.CancelledError):
        return "error", {"error": failed().message}
    return "result", whole_answer(order, found, started)


def _places(order: Order) -> list[tuple[int, int]]:
    """For every sentence of the job: its text, and its number in it."""
    return [
        (text, sentence) for text, lines in enumerate(order.texts) for sentence in range(sum(map(len, lines)))
    ]


def _written(event: str, data: dict[str, Any]) -> str:
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
