"""A model in a process of its own: the same answers, and a server that outlives it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from serving import until
from starlette.testclient import TestClient

from disco_mt.core.errors import UserError
from disco_mt.decoding.options import DecodingOptions
from disco_mt.decoding.results import Pass
from disco_mt.engine.select import EngineOptions
from disco_mt.pins.parse import Pin
from disco_mt.serve.app import make_app
from disco_mt.serve.models import Models, load_models
from disco_mt.serve.process import Batch, ModelFailed, ProcessDecoder, Sentence
from disco_mt.serve.service import Service
from small_model import Small, sentences

OPTIONS = DecodingOptions(iterations=3, length_beam=2)
ENGINE = EngineOptions(threads=1)


@pytest.fixture(scope="module")
def far(small: Small) -> Iterator[ProcessDecoder]:
    decoder = ProcessDecoder(str(small.disco), ENGINE)
    decoder.wait()
    yield decoder
    decoder.close()


def test_the_same_answers(far: ProcessDecoder, models: Models) -> None:
    texts = [*map(Sentence, sentences(6)), Sentence("The house.", (Pin("Haus"),))]
    near, before = models.all[0], far.rows
    assert far.translate(Batch(texts, OPTIONS)) == near.translate(Batch(texts, OPTIONS))
    assert far.rows > before
    assert far.translate(Batch(texts[:1], OPTIONS, trace=True)) == near.translate(
        Batch(texts[:1], OPTIONS, trace=True)
    )
    here: list[Pass[str]] = []
    there: list[Pass[str]] = []
    near.translate(Batch(texts[:1], OPTIONS), here.append)
    far.translate(Batch(texts[:1], OPTIONS), there.append)
    assert here == there != []


def test_mistakes_come_through(far: ProcessDecoder) -> None:
    with pytest.raises(UserError, match="does not fit a model of kind disco"):
        far.translate(Batch([Sentence("a")], DecodingOptions("beam")))
    with pytest.raises(ModelFailed, match="AttributeError"):
        far.translate(Batch([None], OPTIONS))  # type: ignore[list-item]
    assert far.translate(Batch([Sentence("a")], OPTIONS))


def test_who_does_not_want_more_passes_ends_them(far: ProcessDecoder) -> None:
    told: list[int] = []

    def enough(now: Pass[str]) -> None:
        told.append(now.step)
        raise KeyError

    for _ in range(3):
        with pytest.raises(KeyError):
            far.translate(
                Batch([Sentence("the " * 40)], DecodingOptions("mask-predict", iterations=20)), enough
            )
    assert told == [1, 1, 1]
    assert far.translate(Batch([Sentence("a")], OPTIONS))


def test_a_process_that_is_killed_costs_a_request_and_is_started_again(
    far: ProcessDecoder, models: Models
) -> None:
    model = replace(models.all[0], decoder=far)
    with TestClient(make_app(Service(Models((model,))))) as client:
        body = {"text": "The house.", "iterations": 2}
        wanted = client.post("/v1/translate", json=body).json()["translations"]
        first = far.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert client.post("/v1/translate", json=body).status_code == 500
        assert client.post("/v1/translate", json=body).json()["translations"] == wanted
        assert far.pid != first
        last = far.pid
        os.kill(last or 0, signal.SIGTERM)  # as to a whole group: the child waits for its parent's word
        assert client.post("/v1/translate", json=body).status_code == 200
    until(lambda: not Path(f"/proc/{last}").exists())


def test_what_cannot_be_loaded_is_the_user_s_to_mend(small: Small, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no model"):
        load_models([str(small.disco), "nonsense"], ENGINE)
    with pytest.raises(UserError, match="two models are called 'disco'"):
        load_models([str(small.disco), str(small.disco)], ENGINE)
    with pytest.raises(UserError, match="engine 'nonsense'"):
        load_models([str(small.disco)], replace(ENGINE, engine="nonsense"))
