"""A few hundred hostile requests; tests/slow sends ten thousand."""

from __future__ import annotations

import itertools
import random

import pytest
from hostile import check, from_description, handmade, mutated
from starlette.testclient import TestClient


def test_handmade(client: TestClient) -> None:
    every = list(handmade())
    for request in random.Random(1).sample(every, 150):
        check(client, **request)
    assert client.get("/healthz").status_code == 200


def test_mutated(client: TestClient) -> None:
    statuses = {check(client, **request) for request in itertools.islice(mutated(60), 60)}
    assert len(statuses) > 1


def test_from_the_description(client: TestClient) -> None:
    assert from_description(client, 6) > 40


@pytest.mark.parametrize("text", ["a" * 19_000, ". " * 5_000, "ü" * 9_000])
def test_large_texts_that_are_allowed(client: TestClient, text: str) -> None:
    answer = client.post("/v1/translate", json={"text": text, "iterations": 1, "length_beam": 1})
    assert answer.status_code == 200
