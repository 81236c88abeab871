"""A response other than 200, raised anywhere and turned into HTTP in one place (app.py)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(eq=False)  # not frozen: Python itself writes to exceptions that are raised
class HttpError(Exception):
    """A status and what the client is told; never a path, never a traceback."""

    status: int
    message: str
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.status} {self.message}"


def busy(seconds: float) -> HttpError:
    """429: the queue is full; there should be room in `seconds`."""
    wait = max(1, round(seconds + 0.5))
    return HttpError(429, "too many requests are waiting; try again later", {"Retry-After": str(wait)})


def draining() -> HttpError:
    return HttpError(503, "the server is shutting down", {"Retry-After": "5"})


def deadline_passed(seconds: float) -> HttpError:
    return HttpError(504, f"no answer within {seconds:g} seconds; send less at a time, or try again later")


def failed() -> HttpError:
    """500: the model raised; its message goes to the log, not to the client."""
    return HttpError(500, "the translation failed")


def describe(error: BaseException) -> str:
    """The type of an error and where it was raised, without its message, which may quote a user's text."""
    frames = []
    at = error.__traceback__
    while at is not None:
        frames.append(f"{at.tb_frame.f_code.co_name}:{at.tb_lineno}")
        at = at.tb_next
    return f"{type(error).__name__} in {' > '.join(frames[-6:])}"
