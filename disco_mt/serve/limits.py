"""What a server accepts, and for how long it waits. All is bounded, so that load cannot become memory."""

from __future__ import annotations

from dataclasses import dataclass, fields

from disco_mt.core.settings import at_least


@dataclass(frozen=True)
class Limits:
    """Bounds of one request, of all that wait, and of the time given to clients."""

    characters: int = 20_000
    """Most characters of all texts of a request together."""
    trace_characters: int = 2_000
    """Most characters where every pass is wanted: an answer grows with the square of a sentence's length."""
    body_bytes: int = 262_144
    """Largest request body."""
    queue: int = 256
    """Most requests that wait; more are answered 429 at once."""
    queue_characters: int = 200_000
    """Most characters that wait."""
    batch_characters: int = 4_096
    """Most characters, padded to the longest sentence, that are decoded together."""
    batch_wait: float = 0.002
    """Seconds that an idle worker waits for company before it starts."""
    deadline: float = 30.0
    """Seconds until a request that has no answer yet is given up (504)."""
    connections: int = 1024
    """Most open connections; more are answered 503."""
    receive_seconds: float = 10.0
    """Seconds in which a client must have sent its header, and again its body."""
    send_seconds: float = 30.0
    """Seconds in which a client must take what is sent to it."""
    drain_seconds: float = 30.0
    """Seconds after SIGTERM until what is still unfinished is given up."""

    def __post_init__(self) -> None:
        for field in fields(self):
            at_least(field.name, getattr(self, field.name), 0 if field.name == "batch_wait" else 1)


MOST_TEXTS = 64  # texts in one request
MOST_PINS = 64  # pins in one request
LONGEST_PIN = 200  # characters
MOST_ITERATIONS = 30
WIDEST_LENGTH_BEAM = 10
