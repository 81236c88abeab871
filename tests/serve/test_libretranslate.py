"""LibreTranslate's API, asked by its own client from PyPI, on a real socket."""

from __future__ import annotations

import pytest
from libretranslatepy import LibreTranslateAPI
from serving import live, url
from starlette.testclient import TestClient

from disco_mt.serve.libretranslate import detect
from disco_mt.serve.markup import Markup
from disco_mt.serve.models import Models
from disco_mt.serve.process import Batch, Sentence
from disco_mt.serve.service import Service


def expected(models: Models, text: str) -> str:
    from disco_mt.decoding.options import DecodingOptions

    return models.all[0].translate(Batch([Sentence(text)], DecodingOptions()))[0].text


def test_the_client_of_pypi(models: Models) -> None:
    with live(Service(models)) as server:
        api = LibreTranslateAPI(url(server))
        assert api.translate("The old house.", "en", "de") == expected(models, "The old house.")
        assert api.translate("The old house.", "auto", "de") == expected(models, "The old house.")
        assert api.languages() == [
            {"code": "en", "name": "English", "targets": ["de"]},
            {"code": "de", "name": "German", "targets": []},
        ]
        (best, *_) = api.detect("Das ist ein kleines Haus und ich bin nicht zu Hause.")
        assert best["language"] == "de"
        assert best["confidence"] > 90


def test_json_forms_and_lists(client: TestClient, models: Models) -> None:
    text = "The old house."
    body = {"q": text, "source": "en", "target": "de", "alternatives": 3}
    wanted = {"translatedText": expected(models, text)}
    assert client.post("/translate", json=body).json() == wanted
    assert client.post("/translate", data=body).json() == wanted
    assert (
        client.post("/translate", files={name: (None, str(value)) for name, value in body.items()}).json()
        == wanted
    )
    found = client.post("/translate", json={**body, "q": [text, ""], "source": "auto"}).json()
    assert found["translatedText"] == [wanted["translatedText"], ""]
    assert [each["language"] for each in found["detectedLanguage"]] == ["en", "en"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"source": "en", "target": "de"}, "missing q parameter"),
        ({"q": "a", "source": "en"}, "missing target parameter"),
        ({"q": "a", "source": "fr", "target": "de"}, "not supported"),
        ({"q": "a", "source": "auto", "target": "fr"}, "nothing is translated into"),
        ({"q": 5, "source": "en", "target": "de"}, "q"),
        ({"q": "a", "source": "en", "target": "de", "format": "pdf"}, "format"),
        ([], "must be an object"),
    ],
)
def test_mistakes_in_its_own_way(client: TestClient, body: object, said: str) -> None:
    answer = client.post("/translate", json=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]


def test_broken_forms_do_not_fill_the_log(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = client.post("/translate", content=b"--\xff{broken", headers=kind)
    assert answer.status_code == 400
    assert not [record for record in caplog.records if record.name.startswith("python_multipart")]


def test_settings(client: TestClient) -> None:
    found = client.get("/frontend/settings").json()
    assert found["language"]["source"]["code"] == "en"
    assert found["keyRequired"] is False


def test_html_keeps_its_tags(client: TestClient, models: Models) -> None:
    html = '<p class="a">The old house.</p><script>var the = "old"</script>'
    body = {"q": html, "source": "en", "target": "de", "format": "html"}
    found = client.post("/translate", json=body).json()["translatedText"]
    assert found.startswith('<p class="a">')
    assert found.endswith('</p><script>var the = "old"</script>')


@pytest.mark.parametrize(
    ("html", "texts"),
    [
        ("<p>a <b>b</b>\n c</p>", ["a", "b", "c"]),
        ("x &lt; y &amp; z", ["x < y & z"]),
        ("<!doctype html><!-- no --><br/>yes<?pi no?>", ["yes"]),
        ("<style>p { color: red }</style><code>no</code>yes", ["yes"]),
        ("a < b", None),
        ("<p", None),
        ("<![CDATA[x]]>", None),
        ("&#0; &bogus; &", None),
        ("</p></script><b", None),
    ],
)
def test_markup_put_together_again_is_the_same(html: str, texts: list[str] | None) -> None:
    markup = Markup.of(html)
    assert "".join(markup.pieces) == html
    if texts is not None:
        assert markup.texts == texts
        assert Markup.of(markup.filled(["<" for _ in texts])).texts == ["<" for _ in texts]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The house is on the hill and we like it.", "en"),
        ("Wir sind nicht auf dem Berg.", "de"),
        ("Nous ne sommes pas dans la maison.", "fr"),
        ("这是一所房子", "zh"),
        ("これは家です", "ja"),
        ("Это дом", "ru"),
    ],
)
def test_languages_are_told_apart(text: str, language: str) -> None:
    assert detect(text, ["en", "de", "fr", "zh", "ja", "ru"])[0][0] == language


def test_a_detector_that_does_not_know_says_so() -> None:
    assert detect("42!", ["en", "de"]) == [("en", 0.0), ("de", 0.0)]
    assert detect("", ["en"]) == [("en", 0.0)]
    assert detect("the house", ["xx", "en-GB"]) == [("en-GB", 100.0), ("xx", 0.0)]
    assert detect("Haus", ["en", "de"])[0][1] < detect("Das Haus ist nicht alt.", ["en", "de"])[0][1]
