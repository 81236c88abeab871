"""LibreTranslate's API, so that its many clients work unchanged.

https://docs.libretranslate.com. Bodies are JSON or forms; errors are {"error": "..."} with status 400 or 403.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from py3langid.langid import MODEL_FILE, LanguageIdentifier
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from disco_mt.decoding.options import DecodingOptions
from disco_mt.serve.http_errors import HttpError
from disco_mt.serve.limits import MOST_TEXTS
from disco_mt.serve.markup import Markup
from disco_mt.serve.models import Models, ServedModel
from disco_mt.serve.schemas import ErrorAnswer, Name, Text
from disco_mt.serve.service import Service
from disco_mt.serve.worker import Job
from disco_mt.text.languages import base_language

NAMES = {
    "ar": "Arabic",
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "zh": "Chinese",
}
_MOST_FIELDS = 20  # in a form
_LONGEST_FIELD = 262_144


class _Lenient(BaseModel):
    """Unknown fields are ignored: clients send more than we know (`alternatives`, `suggestions`)."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    api_key: Name | None = None


class LibreRequest(_Lenient):
    """POST /translate."""

    q: Text | Annotated[list[Text], Field(max_length=MOST_TEXTS)]
    source: Name = Field("auto", description="Language of the text, or auto.")
    target: Name
    format: Literal["text", "html"] = "text"


class DetectRequest(_Lenient):
    """POST /detect."""

    q: Text


class Detected(BaseModel):
    """A language, and the confidence in it, from 0 to 100."""

    confidence: float
    language: str


class LibreAnswer(BaseModel):
    """A string for a string, a list for a list."""

    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's name
    detectedLanguage: Detected | list[Detected] | None = None  # noqa: N815


class Language(BaseModel):
    """A language, and those into which it can be translated."""

    code: str
    name: str
    targets: list[str]


Body = TypeVar("Body", bound=_Lenient)

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer} for status in (400, 401, 403, 408, 413, 422, 429, 500, 503, 504)
}


def libretranslate_routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["LibreTranslate"])

    @router.post(
        "/translate", response_model=LibreAnswer, responses=ERRORS, openapi_extra=_body(LibreRequest)
    )
    async def translate(request: Request) -> JSONResponse:
        """Translate a text or a list of texts, plain or HTML."""
        wanted = await _read(request, LibreRequest)
        service.keys.check(request.headers, wanted.api_key or "")
        texts = [wanted.q] if isinstance(wanted.q, str) else wanted.q
        service.check_size(texts)
        detected = await _detected(service.models, texts, wanted)
        model = _model(service.models, detected[0]["language"] if detected else wanted.source, wanted.target)
        done = await _translated(service, request, model, texts, wanted.format == "html")
        return JSONResponse(_shaped(wanted, done, detected))

    @router.get("/languages", response_model=list[Language])
    async def languages() -> list[Language]:
        """All languages, and what each can be translated into."""
        return [
            Language(code=code, name=NAMES.get(code, code), targets=targets)
            for code, targets in service.models.languages.items()
        ]

    @router.post(
        "/detect", response_model=list[Detected], responses=ERRORS, openapi_extra=_body(DetectRequest)
    )
    async def detect_language(request: Request) -> JSONResponse:
        """Guess the language, among those that the server's models know."""
        wanted = await _read(request, DetectRequest)
        service.keys.check(request.headers, wanted.api_key or "")
        service.check_size([wanted.q])
        ranked = await asyncio.to_thread(detect, wanted.q, service.models.languages)
        likely = [pair for pair in ranked if pair[1] > 0] or ranked[:1]
        return JSONResponse([{"confidence": confidence, "language": code} for code, confidence in likely])

    @router.get("/frontend/settings")
    async def settings() -> dict[str, Any]:
        """What web clients ask before they show themselves."""
        return _settings(service)

    return router


def detect(text: str, languages: Iterable[str]) -> list[tuple[str, float]]:
    """(language, confidence from 0 to 100), best first. All 0: there is no letter, or none of them fits."""
    text = text[:1_000]  # more does not change the answer
    ranks = dict(_identifier().rank(text)) if any(map(str.isalpha, text)) else {}
    scores = {language: float(ranks.get(base_language(language), 0.0)) for language in languages}
    total = sum(scores.values()) or 1.0
    confidences = [(language, round(100 * score / total, 1)) for language, score in scores.items()]
    return sorted(confidences, key=lambda pair: -pair[1])


@cache
def _identifier() -> LanguageIdentifier:  # loaded when it is first needed
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


async def _translated(
    service: Service, request: Request, model: ServedModel, texts: list[str], html: bool
) -> list[str]:
    pages = [Markup.of(text) for text in texts] if html else []
    inputs = [text for page in pages for text in page.texts] if html else texts
    job = Job.of(model, DecodingOptions(), inputs)
    translations = iter(await service.translate(request, job))
    done = [model.join([[next(translations).text for _ in line] for line in lines]) for lines in job.texts]
    rest = iter(done)
    return [page.filled([next(rest) for _ in page.texts]) for page in pages] if html else done


async def _detected(models: Models, texts: list[str], wanted: LibreRequest) -> list[dict[str, Any]]:
    """For source "auto": the likeliest language of each text that can be translated into the target."""
    if wanted.source != "auto":
        return []
    sources = dict.fromkeys(model.source for model in models.all if model.target == wanted.target)
    if not sources:
        raise HttpError(400, f"nothing is translated into {wanted.target[:20]!r} here; see /languages")
    best = await asyncio.to_thread(lambda: [detect(text, sources)[0] for text in texts or [""]])
    return [{"confidence": confidence, "language": code} for code, confidence in best]


def _model(models: Models, source: str, target: str) -> ServedModel:
    model = models.pair(source, target) if source and target else None
    if model is None:
        raise HttpError(400, f"{source[:20]!r} to {target[:20]!r} is not supported; see /languages")
    return model


def _shaped(wanted: LibreRequest, done: list[str], detected: list[dict[str, Any]]) -> dict[str, Any]:
    if isinstance(wanted.q, str):
        return {"translatedText": done[0]} | ({"detectedLanguage": detected[0]} if detected else {})
    return {"translatedText": done} | ({"detectedLanguage": detected[: len(done)]} if detected else {})


def _settings(service: Service) -> dict[str, Any]:
    first = service.models.all[0]
    names = {code: {"code": code, "name": NAMES.get(code, code)} for code in (first.source, first.target)}
    return {
        "apiKeys": service.keys.needed,
        "charLimit": service.limits.characters,
        "filesTranslation": False,
        "frontendTimeout": 500,
        "keyRequired": service.keys.needed,
        "language": {"source": names[first.source], "target": names[first.target]},
        "suggestions": False,
        "supportedFilesFormat": [],
    }


async def _read(request: Request, shape: type[Body]) -> Body:
    """A body in JSON or as a form; errors are worded as LibreTranslate words them."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
            values = await _form(request)
        else:
            values = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise HttpError(400, "Invalid request: the body is neither JSON nor a form") from None
    if not isinstance(values, dict):
        raise HttpError(400, "Invalid request: the body must be an object with q, source and target")
    try:
        return shape.model_validate(values)
    except ValidationError as error:
        raise HttpError(400, f"Invalid request: {_problem(error)}") from None


async def _form(request: Request) -> dict[str, Any]:
    """Fields by name; a `q` that comes several times is a list."""
    async with request.form(max_files=0, max_fields=_MOST_FIELDS, max_part_size=_LONGEST_FIELD) as form:
        fields = [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    texts = [value for name, value in fields if name == "q"]
    return dict(fields) | ({"q": texts} if len(texts) > 1 else {})


def _problem(error: ValidationError) -> str:
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else "the body"
    return f"missing {name} parameter" if first["type"] == "missing" else f"{name}: {first['msg']}"


def _body(shape: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI description of a body that FastAPI does not parse."""
    content = {"schema": shape.model_json_schema()}
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"requestBody": {"required": True, "content": dict.fromkeys(kinds, content)}}
