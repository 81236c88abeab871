"""The queue: who is decoded with whom, who waits for whom, and what a fault costs."""

from __future__ import annotations

import pytest
from serving import Unwell, until, unwell

from disco_mt.decoding.options import DecodingOptions
from disco_mt.pins.parse import Pin
from disco_mt.serve.http_errors import HttpError
from disco_mt.serve.limits import Limits
from disco_mt.serve.models import Models, ServedModel
from disco_mt.serve.monitoring import Metrics
from disco_mt.serve.process import Sentence
from disco_mt.serve.worker import Job, Waiting, Worker, choose_batch

OPTIONS = DecodingOptions(iterations=2, length_beam=2)


def job(model: ServedModel, *texts: str, iterations: int = 2, trace: bool = False) -> Job:
    return Job(model, DecodingOptions(iterations=iterations), [Sentence(text) for text in texts], trace)


def waiting(jobs: list[Job]) -> list[Waiting]:
    return [Waiting(number + n, j, n) for number, j in enumerate(jobs) for n in range(len(j.sentences))]


def chosen(jobs: list[Job], characters: int) -> list[str]:
    return [each.sentence.text for each in choose_batch(waiting(jobs), characters)]


def test_a_batch_is_the_first_and_those_nearest_in_length(models: Models) -> None:
    model = models.all[0]
    jobs = [job(model, "a" * 10), job(model, "b" * 90), job(model, "c" * 12), job(model, "d" * 9)]
    assert chosen(jobs, 40) == ["a" * 10, "d" * 9, "c" * 12]
    assert chosen(jobs, 1) == ["a" * 10]


def test_only_what_has_the_same_options_goes_together(models: Models) -> None:
    one, two = models.all
    jobs = [
        job(one, "a"),
        job(one, "b", iterations=3),
        job(two, "c"),
        job(one, "d", trace=True),
        job(one, "e"),
    ]
    assert chosen(jobs, 1000) == ["a", "e"]
    assert chosen(jobs[3:], 1000) == ["d"]


def test_a_long_text_lets_others_pass(models: Models) -> None:
    model = models.all[0]
    queue = waiting([job(model, *"abcdef"), job(model, "X")])
    order = []
    while queue:
        (first,) = choose_batch(queue, 1)
        queue.remove(first)
        order.append(first.sentence.text)
    assert order.index("X") <= 2


@pytest.fixture
def model(models: Models) -> Unwell:
    return unwell(models)


@pytest.fixture
def worker() -> Worker:
    return Worker(Limits(queue=3, queue_characters=100), Metrics())


def test_a_fault_is_one_request_s_own(model: Unwell, worker: Worker) -> None:
    jobs = [job(model, "the old house"), job(model, "boom", "the child"), job(model, "a child")]
    for each in jobs:
        worker.submit(each)
    worker.start()
    assert [found.text for found in jobs[0].done.result(20)]
    assert [found.text for found in jobs[2].done.result(20)]
    with pytest.raises(HttpError) as refused:
        jobs[1].done.result(20)
    assert (refused.value.status, "secret" in refused.value.message) == (500, False)
    until(lambda: worker.queued == 0)
    worker.stop()


def test_impossible_pins_are_refused_with_a_reason(model: Unwell, worker: Worker) -> None:
    worker.start()
    wrong = Job(model, OPTIONS, [Sentence("a", (Pin("Haus", 9_000),))])
    worker.submit(wrong)
    with pytest.raises(HttpError, match="does not fit"):
        wrong.done.result(20)
    worker.stop()


def test_a_full_queue_refuses_at_once_and_recovers(model: Unwell, worker: Worker) -> None:
    model.pause.clear()
    worker.start()
    jobs = [job(model, "a child") for _ in range(3)]
    for each in jobs:
        worker.submit(each)
    with pytest.raises(HttpError, match="429") as refused:
        worker.submit(job(model, "one too many"))
    assert int(refused.value.headers["Retry-After"]) >= 1
    model.pause.set()
    for each in jobs:
        each.done.result(20)
    until(lambda: worker.queued == 0)
    model.pause.clear()
    small = job(model, "x")
    worker.submit(small)
    with pytest.raises(HttpError, match="429"):  # few requests, but much text
        worker.submit(job(model, "y" * 200))
    model.pause.set()
    small.done.result(20)
    again = job(model, "again")
    worker.submit(again)
    assert again.done.result(20)
    worker.stop()


def test_who_has_gone_is_not_translated(model: Unwell, worker: Worker) -> None:
    model.pause.clear()
    worker.start()
    jobs = [job(model, "first"), job(model, "second"), job(model, "third")]
    worker.submit(jobs[0])
    until(lambda: not worker._waiting)  # it is being translated
    worker.submit(jobs[1])
    worker.submit(jobs[2])
    jobs[1].done.cancel()
    model.pause.set()
    jobs[2].done.result(20)
    assert model.batches == [1, 1]
    assert worker.queued == 0
    worker.stop()


def test_draining_finishes_what_was_accepted(model: Unwell, worker: Worker) -> None:
    model.pause.clear()
    worker.start()
    accepted = job(model, "accepted")
    worker.submit(accepted)
    worker.drain()
    with pytest.raises(HttpError, match="503"):
        worker.submit(job(model, "late"))
    model.pause.set()
    assert accepted.done.result(20)
    worker.stop()
    assert not worker.is_alive
