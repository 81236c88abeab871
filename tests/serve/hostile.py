"""Requests that nobody should send: made by hand, and by schemathesis from the OpenAPI description."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from starlette.testclient import TestClient

TEXTS = (
    "",
    "\x00",
    "a\x00b",
    "\ud800",
    "\udfff\ud800",
    "\u202e\u2066evil\u2069",
    "\ufeff\u200b\u200d",
    "\U0010ffff",
    "א" * 300,
    "a" * 19_999,
    "a" * 20_001,
    " " * 5_000,
    ". " * 900,
    "\n" * 2_000,
    "the\u2028house\u2029",
    "\r\r\r\n",
    "e" + "\u0301" * 2_000,
    "👩‍👩‍👧‍👦" * 50,
    "</s><pad><mask>",
    "../../etc/passwd",
    "'; DROP TABLE x; --",
    "{{7*7}}${7*7}",
    "<script>alert(1)</script>",
    "%00%ff",
    "\x1b[31m",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1,
    2**63,
    -(2**70),
    1.5,
    1e308,
    "",
    "x",
    "1",
    "\ud800",
    [],
    [None],
    [[]],
    {},
    {"a": 1},
    ["a"] * 70,
)
PINS = (
    {"text": "Haus", "at": 10_001},
    {"text": "Haus", "at": 9_999},
    {"text": "Haus", "at": 2, "sentence": 10_000},
    {"text": "Haus", "of": 63},
    {"text": "\ud800"},
    {"text": "\u202e"},
    {"text": "\x00"},
    {"text": " \n"},
    {"text": "x y z " * 30},
    {"text": "Haus", "at": "0"},
    {"at": 1},
    {"text": "Haus", "at": 1, "extra": 1},
    [],
    None,
)
BYTES = (
    b"",
    b"\xff\xfe\xfd",
    b"\xef\xbb\xbf{}",
    b"\x00" * 100,
    b"[" * 100_000,
    b'{"text":' * 20_000,
    b'{"text": "' + b"\\ud800" * 100 + b'"}',
    b'{"text": "\xc3\x28"}',
    b'{"text": NaN}',
    b'{"text": "a", "iterations": ' + b"9" * 5_000 + b"}",
    b'{"text": "a", "iterations": 1e400}',
    b'{"text": "a", "text": "b"}',
    b'{"text": "a"} trailing',
    b"text=a",
    b"q=a&q=b&source=en&target=de&q=c",
    b"q=%ff%fe&source=en&target=de",
    b"&".join(b"q=a" for _ in range(500)),
    b"=" * 1_000,
    b"--x\r\nContent-Disposition: form-data; name=q\r\n\r\na",
    b"--x\r\nContent-Disposition: form-data; name=q; filename=/etc/passwd\r\n\r\na\r\n--x--",
    "{'text': 'ü'}".encode("utf-16"),
)
KINDS = (
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "multipart/form-data",
    "text/plain",
    "application/json; charset=utf-16",
    "",
    "\x7f/;;;=",
)
HEADERS = (
    {"Authorization": "Bearer " + "x" * 5_000},
    {"Authorization": "\xff\xfe"},
    {"X-API-Key": "é"},
    {"Origin": "null"},
    {"Origin": "http://[::1"},
    {"Host": "["},
    {"Host": "a:b:c"},
    {"Content-Length": "5"},
    {"If-None-Match": '"' * 500},
    {"Accept-Encoding": "gzip, " * 200},
    {"Content-Encoding": "gzip"},
    {"Expect": "100-continue"},
)
POSTS = ("/v1/translate", "/translate", "/detect")
PATHS = (
    "/",
    "/docs",
    "/openapi.json",
    "/v1/models",
    "/languages",
    "/frontend/settings",
    "/metrics",
    "/readyz",
    "/..%2f..%2fetc%2fpasswd",
    "/%00",
    "/view/%2e%2e/%2e%2e/translator.py",
    "/v1/translate/",
    "/" + "a" * 5_000,
    "/v1/%ff%fe",
    "/?q=%ff",
)
METHODS = ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "FOO")

LEAKS = re.compile(rb"Traceback|File \"|/site-packages|\.py\b|disco_mt|/tmp/|/home/|/root/|0x[0-9a-f]{8}")
"""What an answer must not tell."""


def check(client: TestClient, method: str, path: str, **more: Any) -> int:
    """Send one request: no 500, no leak, and an error is {"error": text}."""
    answer = client.request(method, path, **more)
    what = (method, path[:100], str(more)[:300], answer.status_code, answer.content[:300])
    assert answer.status_code < 500, what
    if answer.status_code >= 400:
        assert method == "HEAD" or set(answer.json()) == {"error"}, what
        assert not LEAKS.search(answer.content), what
    return answer.status_code


def handmade() -> Iterator[dict[str, Any]]:
    """Every text, value, pin, body and header in every place, one after another."""
    for path, body, kind in itertools.product(POSTS, BYTES, KINDS):
        yield {"method": "POST", "path": path, "content": body, "headers": {"Content-Type": kind.encode()}}
    for text in TEXTS:
        for shape in (text, [text], [text, "a"]):
            yield _json("/v1/translate", {"text": shape, "iterations": 1, "length_beam": 1})
            yield _json("/translate", {"q": shape, "source": "auto", "target": "de"})
            yield _json("/translate", {"q": shape, "source": "en", "target": "de", "format": "html"})
        for name in ("model", "source", "target", "strategy", text[:300] or "x"):
            yield _json("/v1/translate", {"text": "a", name: text})
        yield _json("/detect", {"q": text, "api_key": text})
    fields = (
        "text",
        "model",
        "source",
        "target",
        "strategy",
        "iterations",
        "length_beam",
        "pinned",
        "trace",
        "stream",
    )
    for name, value in itertools.product(fields, VALUES):
        yield _json("/v1/translate", {"text": "a", "iterations": 1, name: value})
    for name, value in itertools.product(("q", "source", "target", "format", "api_key"), VALUES):
        yield _json("/translate", {"q": "a", "source": "en", "target": "de", name: value})
    for pin, stream in itertools.product(PINS, (False, True)):
        yield _json(
            "/v1/translate", {"text": "the house", "iterations": 1, "pinned": [pin], "stream": stream}
        )
    for path, headers in itertools.product((*POSTS, *PATHS), HEADERS):
        encoded = {name: value.encode("latin-1") for name, value in headers.items()}
        yield {"method": "GET", "path": path, "headers": encoded}
        yield {"method": "POST", "path": path, "headers": encoded, "content": b'{"text":"a"}'}
    for method, path in itertools.product(METHODS, (*POSTS, *PATHS)):
        yield {"method": method, "path": path}


def _json(path: str, body: Any) -> dict[str, Any]:
    content = json.dumps(body).encode()
    return {
        "method": "POST",
        "path": path,
        "content": content,
        "headers": {"Content-Type": "application/json"},
    }


def mutated(number: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Good requests with a few bytes changed."""
    draw = random.Random(seed)
    good = json.dumps(
        {"text": "The old house.", "iterations": 1, "length_beam": 1, "pinned": [{"text": "Haus", "at": 0}]}
    ).encode()
    for _ in range(number):
        body = bytearray(good)
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(body))
            body[place : place + draw.randint(0, 2)] = draw.randbytes(draw.randint(0, 3))
        kind = draw.choice(KINDS[:3])
        yield {
            "method": "POST",
            "path": draw.choice(POSTS),
            "content": bytes(body),
            "headers": {"Content-Type": kind},
        }


def from_description(client: TestClient, number: int, seed: int = 0) -> int:
    """`number` requests an operation, by schemathesis, as the description wants them and not; how many."""
    import schemathesis
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as seeded
    from hypothesis.errors import Unsatisfiable
    from schemathesis import GenerationMode

    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
    sent = 0
    for found, mode in itertools.product(schema.get_all_operations(), GenerationMode):
        operation = found.ok()
        strategy = operation.as_strategy(generation_mode=mode)

        @seeded(seed)
        @settings(
            max_examples=number,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy)
        def send(case: Any) -> None:
            nonlocal sent
            sent += 1
            _send(client, case)

        with suppress(Unsatisfiable):  # where there is no body, nothing can be wrong with it
            send()
    return sent


def _send(client: TestClient, case: Any) -> None:
    """A case over our client; what no client can put into HTTP is left out."""
    more = case.as_transport_kwargs(base_url="http://testserver")
    headers = {
        name: str(value).encode("latin-1", "replace") for name, value in (more.get("headers") or {}).items()
    }
    body: dict[str, Any] = {}
    if isinstance(more.get("data"), str | bytes):
        body = {"content": more["data"]}
    elif more.get("data") is not None:
        body = {"data": {str(name): str(value) for name, value in dict(more["data"]).items()}}
    elif "json" in more:
        body = {"content": json.dumps(more["json"]).encode()}
    check(client, more["method"], more["url"].removeprefix("http://testserver"), headers=headers, **body)
