"""The page and /docs: files of the package, strict, nothing from elsewhere."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import pytest
from starlette.testclient import TestClient

from disco_mt.serve.static import FOLDERS


def test_the_page_and_its_files(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    for path in re.findall(r'(?:src|href)="([^"#:]+\.(?:js|css|svg))"', page.text):
        answer = client.get(f"/{path}")
        assert answer.status_code == 200, path
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_every_module_that_a_script_imports_is_served(client: TestClient) -> None:
    for path in files_of_the_page():
        if path.endswith(".js"):
            for module in re.findall(r'^import .* from "(.*)";$', client.get(path).text, re.MULTILINE):
                assert client.get(urljoin(path, module)).headers["content-type"].startswith("text/javascript")


def test_unchanged_files_are_not_sent_again(client: TestClient) -> None:
    first = client.get("/")
    again = client.get("/", headers={"If-None-Match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["cache-control"] == first.headers["cache-control"] == "no-cache"
    assert client.get("/", headers={"If-None-Match": '"other"'}).status_code == 200


def test_the_whole_page_is_small_on_the_wire(client: TestClient) -> None:
    """HTML, styles, scripts, picture: what a first visit costs."""
    sent = {path: client.get(path, headers={"Accept-Encoding": "br, gzip"}) for path in files_of_the_page()}
    assert len(sent) > 15
    packed = [answer for answer in sent.values() if "content-encoding" in answer.headers]
    assert all(answer.headers["vary"] == "Accept-Encoding" for answer in packed)
    assert sum(answer.num_bytes_downloaded for answer in sent.values()) < 30_000
    plain = {path: client.get(path, headers={"Accept-Encoding": "identity"}) for path in sent}
    assert not any("content-encoding" in answer.headers for answer in plain.values())
    for path, answer in sent.items():
        assert answer.content == plain[path].content  # the client has unpacked it
    page = sent["/"]
    assert page.headers["content-encoding"] == "gzip"


def files_of_the_page() -> list[str]:
    files = [f"{path}/{file.name}" for path, folder in FOLDERS.items() for file in folder.iterdir()]
    return ["/", *(file for file in files if file != "/page/index.html")]


@pytest.mark.parametrize(
    "path",
    [
        "/../limits.py",
        "/..%2flimits.py",
        "/view/../../setup.py",
        "/%2e%2e/app.py",
        "/page/../limits.py",
        "/page/..%2flimits.py",
        "/page/%2e%2e/app.py",
        "/page",
        "/page/",
        "//etc/passwd",
    ],
)
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_docs_need_nothing_from_elsewhere(client: TestClient) -> None:
    page = client.get("/docs")
    assert "script" not in page.text.lower().replace("description", "")
    assert not re.findall(r"(?:src|href)='(?!openapi\.json|#)", page.text)
    for path in client.get("/openapi.json").json()["paths"]:
        assert path in page.text
