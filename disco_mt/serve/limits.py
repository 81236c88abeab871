"""How much a server accepts, and how long it waits. Everything is bounded, so load cannot use up memory."""

from __future__ import annotations

from dataclasses import dataclass, fields

from disco_mt.core.settings import at_least


@dataclass(frozen=True)
class Limits:
    """Limits of one request, of the queue, and of the time that clients get."""

    characters: int = 20_000
    """Maximum characters of all texts of a request together."""
    trace_characters: int = 2_000
    """The same with trace or stream: a response then grows with the square of a sentence's length."""
    body_bytes: int = 262_144
    """Maximum size of a request body."""
    queue: int = 256
    """Maximum number of waiting requests; more are answered 429 at once."""
    queue_characters: int = 200_000
    """Maximum characters of all waiting requests."""
    batch_characters: int = 4_096
    """Maximum characters that are decoded together, padded to the longest sentence."""
    batch_wait: float = 0.002
    """Seconds that an idle worker waits for more requests before it starts."""
    deadline: float = 30.0
    """Seconds after which an unanswered request is given up (504)."""
    connections: int = 1024
    """Maximum number of open connections; more are answered 503."""
    receive_seconds: float = 10.0
    """Seconds that a client has to send its header, and again to send its body."""
    send_seconds: float = 30.0
    """Seconds that a client has to read what is sent to it."""
    drain_seconds: float = 30.0
    """Seconds after SIGTERM until unfinished requests are given up."""

    def __post_init__(self) -> None:
        for field in fields(self):
            at_least(field.name, getattr(self, field.name), 0 if field.name == "batch_wait" else 1)


MOST_TEXTS = 64  # texts in one request
MOST_PINS = 64  # pins in one request
LONGEST_PIN = 200  # characters
MOST_ITERATIONS = 30
WIDEST_LENGTH_BEAM = 10
