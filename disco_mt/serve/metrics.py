"""What Prometheus may know: how much, how fast, how full. No text, no address, no key."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128)
_STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30)


class Metrics:
    """One registry a server, so that several can live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("disco_requests", "Requests answered", "path", "status")
        self.latency = Histogram(
            "disco_request_seconds",
            "Time from a request's header to the end of its answer",
            ["path"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.failures = self._counter("disco_model_failures", "Sentences that made a model raise")
        self.rows = self._counter("disco_rows_computed", "Target positions that a model has predicted")
        self.words = self._counter("disco_words", "Target tokens returned")
        self.batches = self._histogram("disco_batch_sentences", "Sentences decoded together", _SENTENCES)
        self.busy = self._histogram("disco_batch_seconds", "Time to decode a batch", _SECONDS)
        self.steps = self._histogram("disco_steps", "Sequential decoder passes of a sentence", _STEPS)

    def watch_queue(self, length: Callable[[], int]) -> None:
        """Show how many requests are accepted and not yet answered."""
        gauge = Gauge("disco_queue_requests", "Requests accepted, not yet answered", registry=self.registry)
        gauge.set_function(length)

    def batch(self, sentences: int, seconds: float, rows: int) -> None:
        """A batch was decoded."""
        self.rows.inc(rows)
        self.batches.observe(sentences)
        self.busy.observe(seconds)

    def sentence(self, steps: int, words: int) -> None:
        """A sentence was translated."""
        self.steps.observe(steps)
        self.words.inc(words)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, help_: str, *labels: str) -> Counter:
        return Counter(name, help_, labels, registry=self.registry)

    def _histogram(self, name: str, help_: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, help_, buckets=buckets, registry=self.registry)
