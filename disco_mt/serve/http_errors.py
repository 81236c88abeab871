"""An answer other than 200, raised anywhere and turned into HTTP in one place (app.py)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)  # not frozen: Python itself writes to exceptions that are raised
class Refusal(Exception):  # noqa: N818 - it is an answer, not a mistake of ours
    """A status and what the client is told; never a path, never a trace."""

    status: int
    message: str
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.status} {self.message}"


def busy(seconds: float) -> Refusal:
    """429: the queue is full; `seconds` is when there should be room."""
    wait = max(1, round(seconds + 0.5))
    return Refusal(429, "too many requests wait already; try again later", {"Retry-After": str(wait)})


def draining() -> Refusal:
    """503: the server is about to end."""
    return Refusal(503, "the server is shutting down", {"Retry-After": "5"})


def too_late(seconds: float) -> Refusal:
    """504: the deadline of the request has passed."""
    return Refusal(504, f"no answer within {seconds:g} seconds; send less at a time, or try again later")


def failed() -> Refusal:
    """500: the model raised; what it said is in the log, not in the answer."""
    return Refusal(500, "the translation failed")


def gone() -> Refusal:
    """499, which nobody will read: the client has hung up."""
    return Refusal(499, "the client has hung up")


def describe(error: BaseException) -> str:
    """What went wrong and where, without the message: it may quote a user's text."""
    frames = []
    at = error.__traceback__
    while at is not None:
        frames.append(f"{at.tb_frame.f_code.co_name}:{at.tb_lineno}")
        at = at.tb_next
    return f"{type(error).__name__} in {' > '.join(frames[-6:])}"
