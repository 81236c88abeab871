"""A small English-German model behind a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from disco_mt.serve.app import make_app
from disco_mt.serve.models import Models, ServedModel
from disco_mt.serve.service import Service
from disco_mt.translator import Translator
from small_model import Small, make_small


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return make_small(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="session")
def models(small: Small) -> Models:
    """In this process; test_process.py has one that is not."""
    kinds = ("disco", "autoregressive")
    loaded = [ServedModel.local(kind, Translator.from_pretrained(getattr(small, kind))) for kind in kinds]
    return Models(tuple(loaded))


@pytest.fixture(scope="module")
def service(models: Models) -> Service:
    return Service(models)


@pytest.fixture(scope="module")
def client(service: Service) -> Iterator[TestClient]:
    with TestClient(make_app(service)) as client:
        yield client
