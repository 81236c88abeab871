"""POST /v1/translate and everything around it, as a client sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from serving import QUICK, until, unwell
from starlette.testclient import TestClient

from disco_mt.decoding.options import DecodingOptions
from disco_mt.serve.access import Access, Keys, access_for, read_keys
from disco_mt.serve.app import make_app
from disco_mt.serve.limits import Limits
from disco_mt.serve.models import Models
from disco_mt.serve.process import Batch, Sentence
from disco_mt.serve.schemas import TranslateAnswer
from disco_mt.serve.service import Service
from small_model import sentences

TEXT = "The old house sees. Today the child finds!\n\nThe small child."


def ask(client: TestClient, text: object = TEXT, status: int = 200, **more: object) -> Any:
    answer = client.post("/v1/translate", json={"text": text, **QUICK, **more})
    assert answer.status_code == status, answer.text
    return answer.json()


def test_an_answer_has_all_that_is_promised(client: TestClient, models: Models) -> None:
    found = ask(client)
    TranslateAnswer.model_validate(found)
    (text,) = found["translations"]
    assert [part["source"] for part in text["sentences"]] == [
        "The old house sees.",
        "Today the child finds!",
        "The small child.",
    ]
    parts = [Sentence(part["source"]) for part in text["sentences"]]
    alone = models.all[0].translate(Batch(parts, DecodingOptions(iterations=2, length_beam=2)))
    assert [len(part["tokens"]) for part in text["sentences"]] == [len(each.tokens) for each in alone]
    first, second, third = (part["text"] for part in text["sentences"])
    assert text["text"] == f"{first} {second}\n\n{third}"  # lines stay lines
    assert text["steps"] == sum(part["steps"] for part in text["sentences"])
    assert (found["model"], found["strategy"]) == ("disco", "easy-first")


def test_many_texts_and_none(client: TestClient) -> None:
    assert [each["text"] for each in ask(client, ["", " ", "\n"])["translations"]] == ["", "", "\n"]
    assert ask(client, [])["translations"] == []
    both = ask(client, ["The house.", "A child."])["translations"]
    assert [ask(client, text)["translations"][0] for text in ("The house.", "A child.")] == both


def test_concurrent_requests_get_what_lone_ones_get(client: TestClient, service: Service) -> None:
    """Equal to the last digit that is sent, however they are batched."""
    texts = sentences(60, seed=8)
    lone = [ask(client, text)["translations"] for text in texts[:30]]
    with ThreadPoolExecutor(16) as pool:
        crowd = list(pool.map(lambda text: ask(client, text)["translations"], texts))
    assert crowd[:30] == lone
    alone = service.metrics.registry.get_sample_value("disco_batch_sentences_bucket", {"le": "1.0"})
    sentences_done = service.metrics.registry.get_sample_value("disco_batch_sentences_sum")
    assert alone is not None
    assert sentences_done is not None
    assert alone <= sentences_done - 10  # some were together


def test_models_by_name_and_by_languages(client: TestClient) -> None:
    listed = client.get("/v1/models").json()["models"]
    assert [(model["name"], model["source"], model["target"]) for model in listed] == [
        ("disco", "en", "de"),
        ("autoregressive", "en", "de"),
    ]
    assert ask(client, model="autoregressive")["strategy"] == "beam"
    assert ask(client, source="en", target="de")["model"] == "disco"
    assert "there are: disco (en-de)" in ask(client, target="fr", status=422)["error"]
    assert "there is no such model" in ask(client, model="../disco", status=422)["error"]
    assert "translates from en to de" in ask(client, model="disco", source="de", status=422)["error"]


def test_a_trace_has_every_pass(client: TestClient) -> None:
    for part in ask(client, trace=True)["translations"][0]["sentences"]:
        trace = part["trace"]
        assert len(trace["passes"]) == len(trace["winners"]) == part["steps"]
        assert [len(row) for row in trace["passes"]] == [2] * part["steps"]
        assert trace["passes"][0][0].keys() >= {"words", "probabilities", "observed", "predicted", "score"}


def events(answer: str) -> list[tuple[str, Any]]:
    found = []
    for block in answer.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_a_stream_tells_each_pass_and_then_the_result(client: TestClient) -> None:
    body = {"text": TEXT, **QUICK, "stream": True}
    with client.stream("POST", "/v1/translate", json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        found = events(answer.read().decode())
    passes = [data for name, data in found if name == "pass"]
    name, result = found[-1]
    assert name == "result"
    assert [(data["text"], data["sentence"]) for data in passes if data["step"] == 1] == [
        (0, 0),
        (0, 1),
        (0, 2),
    ]
    traced = ask(client, trace=True)["translations"][0]["sentences"]
    for data in passes:
        assert data["candidates"] == traced[data["sentence"]]["trace"]["passes"][data["step"] - 1]
    assert [part["text"] for part in result["translations"][0]["sentences"]] == [
        part["text"] for part in traced
    ]


def test_a_stream_that_fails_says_so(client: TestClient) -> None:
    ask(client, "a", 422, stream=True, strategy="beam")
    body = {"text": "a", "stream": True, "pinned": [{"text": "Haus", "at": 5_000}]}
    (event,) = events(client.post("/v1/translate", json=body).text)
    assert event[0] == "error"
    assert "does not fit" in event[1]["error"]


def test_pinned_words_are_kept(client: TestClient) -> None:
    pins = [{"text": "Haus", "at": 1}, {"text": "Kind", "sentence": 1}, {"text": "alte", "of": 1}]
    one, two = ask(client, ["The house. The child.", "Old."], pinned=pins)["translations"]
    assert "Haus" in one["sentences"][0]["text"]
    assert "Kind" in one["sentences"][1]["text"]
    assert "alte" in two["text"]
    assert any(one["sentences"][0]["pinned"])


@pytest.mark.parametrize(
    ("pin", "said"),
    [
        ({"text": "Haus", "at": 9_999}, "does not fit"),
        ({"text": "Haus", "sentence": 7}, "sentence 7, but the text has 3"),
        ({"text": "Haus", "of": 1}, "a text that is not there"),
        ({"text": "  "}, "a pin must have a text"),
        ({"text": ""}, "pinned.0.text"),
        ({"text": "Haus", "at": -1}, "pinned.0.at"),
        ({"text": "x" * 201}, "pinned.0.text"),
        ({"text": "Haus", "at": True}, "pinned.0.at"),
    ],
)
def test_impossible_pins_are_refused(client: TestClient, pin: dict[str, object], said: str) -> None:
    assert said in ask(client, status=422, pinned=[pin])["error"]


def test_pins_need_a_model_that_can(client: TestClient) -> None:
    ask(client, status=422, model="autoregressive", pinned=[{"text": "Haus"}])


@pytest.mark.parametrize(
    "more",
    [
        {"iterations": 0},
        {"iterations": 31},
        {"iterations": 2.5},
        {"iterations": "2"},
        {"length_beam": 11},
        {"strategy": "beam"},
        {"strategy": "nonsense"},
        {"unknown": 1},
        {"trace": "yes"},
        {"text": 5},
        {"text": [1]},
        {"text": None},
        {"text": ["a"] * 65},
        {"pinned": {}},
    ],
)
def test_mistakes_are_named(client: TestClient, more: dict[str, Any]) -> None:
    said = ask(client, **{"text": TEXT, **more}, status=422)["error"]
    assert next(iter(more)) in said
    assert "constrained" not in said
    assert "the" not in more or TEXT not in said


def test_effort_replaces_old_fields(client: TestClient) -> None:
    assert ask(client, effort="fast")["translations"] != ask(client, effort="high")["translations"]
    assert "'fast', 'normal' or 'high'" in ask(client, effort="best", status=422)["error"]
    assert "no effort 'high'" in ask(client, effort="high", strategy="mask-predict", status=422)["error"]
    for old in ({"settle": "all"}, {"read": "both-ways"}):
        assert '"effort": "high"' in ask(client, **old, status=422)["error"]
    assert "effort high" in ask(client, strategy="easy-first+left-to-right", status=422)["error"]


def test_bodies_that_are_no_json(client: TestClient) -> None:
    for body in (b"", b"{", b"\xff\xfe", b"[]", b"null", b"{" * 5000, b'{"text": 1' + b"0" * 5000 + b"}"):
        answer = client.post("/v1/translate", content=body, headers={"content-type": "application/json"})
        assert answer.status_code in (400, 422)
        assert set(answer.json()) == {"error"}
    half = client.post("/v1/translate", content=b'{"text": ', headers={"content-type": "application/json"})
    assert half.status_code == 400
    assert half.json()["error"] == "the body is not JSON: Expecting value at character 9"
    form = client.post("/v1/translate", data={"text": "as curl -d sends it"})
    assert "must be a JSON object, sent with Content-Type: application/json" in form.json()["error"]
    assert client.get("/v1/translate").status_code == 405
    assert client.get("/nowhere").json() == {"error": "not found"}


def made(models: Models, **changes: Any) -> TestClient:
    return TestClient(make_app(Service(models, **changes)))


def test_too_much_is_refused(models: Models) -> None:
    with made(models, limits=Limits(characters=50, trace_characters=20, body_bytes=400)) as client:
        ask(client, "a" * 50)
        assert "the limit is 50" in ask(client, ["a" * 26, "b" * 25], 413)["error"]
        ask(client, "a" * 21, 413, trace=True)
        ask(client, "a" * 500, 413)
        chunked = client.post("/v1/translate", content=(b"x" * 100 for _ in range(5)))
        assert chunked.status_code == 413


def test_deadline(models: Models) -> None:
    model = unwell(models)
    model.pause.clear()
    with made(Models((model,)), limits=Limits(deadline=1)) as client:
        assert "within 1 seconds" in ask(client, status=504)["error"]
        model.pause.set()
        ask(client)


def test_overload_answers_429_at_once_and_recovers(models: Models) -> None:
    model = unwell(models)
    model.pause.clear()
    service = Service(Models((model,)), Limits(queue=2))
    with TestClient(make_app(service)) as client, ThreadPoolExecutor(2) as pool:
        accepted = [pool.submit(ask, client) for _ in range(2)]
        until(lambda: service.worker.queued == 2)
        answer = client.post("/v1/translate", json={"text": "a"})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        model.pause.set()
        assert all(each.result(20) for each in accepted)
        ask(client)


def test_a_model_that_raises_costs_one_request(models: Models) -> None:
    model = unwell(models)
    with made(Models((model,))) as client:
        said = ask(client, "boom", 500)
        assert said == {"error": "the translation failed"}
        ask(client)
        assert client.get("/healthz").status_code == 200
        assert "disco_model_failures_total 1.0" in client.get("/metrics").text


def test_draining_is_said(models: Models) -> None:
    service = Service(models)
    with TestClient(make_app(service)) as client:
        assert client.get("/readyz").json() == {"status": "ready"}
        service.worker.drain()
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        answer = client.post("/v1/translate", json={"text": "a"})
        assert answer.status_code == 503
        assert "retry-after" in answer.headers


KEY = "k" * 20


@pytest.fixture
def locked(models: Models) -> Iterator[TestClient]:
    with made(models, keys=Keys.of(["another key, long", KEY])) as client:
        yield client


def test_keys(locked: TestClient) -> None:
    body = {"text": "a", **QUICK}
    for headers in ({}, {"Authorization": "Bearer nope"}, {"Authorization": KEY}, {"X-API-Key": KEY + "x"}):
        answer = locked.post("/v1/translate", json=body, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    for headers in ({"Authorization": f"Bearer {KEY}"}, {"X-API-Key": KEY}):
        assert locked.post("/v1/translate", json=body, headers=headers).status_code == 200
    assert locked.get("/metrics").status_code == 401
    for path in ("/healthz", "/readyz", "/", "/docs", "/v1/models", "/languages"):
        assert locked.get(path).status_code == 200
    assert locked.post("/translate", data={"q": "a", "source": "en", "target": "de"}).status_code == 401
    sent = {"q": "a", "source": "en", "target": "de", "api_key": KEY}
    assert locked.post("/translate", data=sent).status_code == 200


def test_keys_come_from_a_file_and_the_environment(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCO_API_KEYS", f"{KEY}, {KEY}2")
    (tmp_path / "keys").write_text(f"# ours\n\n{KEY}3\n")
    keys = read_keys(tmp_path / "keys")
    assert [keys.allow(key) for key in (KEY, KEY + "2", KEY + "3", KEY + "4", "", "# ours")] == [
        *[True] * 3,
        *[False] * 3,
    ]


def test_foreign_pages_are_refused_unless_allowed(models: Models) -> None:
    body = {"text": "a", **QUICK}
    foreign, own = {"Origin": "https://evil.example"}, {"Origin": "http://testserver"}
    with made(models) as client:
        assert client.post("/v1/translate", json=body, headers=own).status_code == 200
        answer = client.post("/v1/translate", json=body, headers=foreign)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
    with made(models, access=Access(origins=("https://evil.example",))) as client:
        answer = client.post("/v1/translate", json=body, headers=foreign)
        assert answer.headers["access-control-allow-origin"] == "https://evil.example"
        assert client.get("/healthz", headers={"Origin": "https://other.example"}).status_code == 403


def test_on_loopback_only_its_own_names(models: Models) -> None:
    with made(models, access=access_for("127.0.0.1", (), ())) as client:
        assert client.get("/healthz").status_code == 400  # "testserver"
        for name in ("localhost:8000", "127.0.0.1", "[::1]:8000"):
            assert client.get("/healthz", headers={"Host": name}).status_code == 200
        for name in ("evil.example", "", "127.0.0.1.evil.example", "[::1"):
            assert client.get("/healthz", headers={"Host": name}).status_code == 400
    assert access_for("0.0.0.0", (), ()).hosts == ()


def test_metrics_count(models: Models) -> None:
    with made(models) as client:
        ask(client)
        client.get("/nowhere-1")
        client.get("/nowhere-2")
        said = client.get("/metrics").text
    assert 'disco_requests_total{path="/v1/translate",status="200"} 1.0' in said
    assert 'disco_requests_total{path="other",status="404"} 2.0' in said
    assert "disco_batch_sentences_sum 3.0" in said
    assert "disco_steps_count 3.0" in said
    assert "disco_queue_requests 0.0" in said
    rows = next(line for line in said.splitlines() if line.startswith("disco_rows_computed_total"))
    assert float(rows.split()[1]) > 0


def test_logs_have_no_text(client: TestClient, models: Models, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    ask(client, "confidential matter")
    with made(Models((unwell(models),))) as faulty:
        ask(faulty, "confidential boom", 500)
    client.post("/translate?q=confidential", json={"q": "confidential"})
    assert "POST /v1/translate 200" in caplog.text
    assert "a model failed: RuntimeError" in caplog.text
    assert "confidential" not in "\n".join(
        record.getMessage() for record in caplog.records if record.name.startswith(("disco", "uvicorn"))
    )
