"""One miniature suite for all tests of experiments; what a test decodes, the next one finds in the cache."""

from __future__ import annotations

import pytest
from mini_suite import make_workspace

from disco_mt.experiments.decode import Lab
from disco_mt.suites.workspace import Workspace


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return make_workspace(tmp_path_factory.mktemp("experiments"))


@pytest.fixture
def lab(workspace: Workspace) -> Lab:
    return Lab(workspace, samples=20)
