"""`disco serve` for a minute under load, overloaded, and under ten thousand hostile requests."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from benchmarks.serving import Report, measure, random_model, sentences
from disco_mt.serve.app import make_app
from disco_mt.serve.models import Models, ServedModel
from disco_mt.serve.service import Service
from disco_mt.translator import Translator
from small_model import make_small

sys.path.append(str(Path(__file__).parents[1] / "serve"))
from hostile import check, from_description, handmade, mutated


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    lines = sentences(2000)
    model = random_model(tmp_path_factory.mktemp("load") / "model", lines)
    found = measure(str(model), lines, clients=64, seconds=60, threads=1)
    print(found)
    return found


def test_no_request_fails(report: Report) -> None:
    assert set(report.load.statuses) == {200}
    assert report.load.failed == 0
    assert report.load.percentile(0.99) < 10_000


def test_throughput_is_near_that_of_the_best_batches(report: Report) -> None:
    assert report.share >= 0.8, str(report)


def test_memory_is_flat(report: Report) -> None:
    before, after = report.memory
    assert after < 1.25 * before + 50, str(report)


def test_overload_is_refused_at_once_and_passes(report: Report) -> None:
    assert set(report.crowd.statuses) == {200, 429}
    assert report.crowd.refused[len(report.crowd.refused) // 2] < 1.0
    assert set(report.after.statuses) == {200}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    small = make_small(tmp_path_factory.mktemp("small"))
    model = ServedModel.local("disco", Translator.from_pretrained(small.disco))
    with TestClient(make_app(Service(Models((model,))))) as client:
        yield client


def test_ten_thousand_hostile_requests(client: TestClient) -> None:
    """No 500, no leak, and the server is as well as before."""
    sent = 0
    for request in itertools.chain(handmade(), mutated(7_000)):
        check(client, **request)
        sent += 1
    sent += from_description(client, 300)
    assert sent >= 10_000
    assert client.get("/healthz").status_code == 200
    answer = client.post("/v1/translate", json={"text": "The old house.", "iterations": 2})
    assert answer.status_code == 200
