"""The command line as a user has it: small models, a dataset, and a way to run `disco` in this process."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from disco_command import Disco, Done, listing
from disco_mt.cli import main
from small_model import Small, make_small


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return make_small(tmp_path_factory.mktemp("small"))


@pytest.fixture
def disco(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Disco:
    """disco("translate", "--model", path, stdin=b"...") -> Done"""

    def run(*arguments: object, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as left:  # how tyro ends a --help and a mistake in the options
            code = int(left.code or 0)
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return run


@pytest.fixture
def refused(disco: Disco, tmp_path: Path) -> Disco:
    """Run a command that must be refused: code 2, a message, no traceback, and nothing new under tmp_path."""

    def run(*arguments: object, stdin: bytes = b"") -> Done:
        before = listing(tmp_path)
        done = disco(*arguments, stdin=stdin)
        assert done.code == 2, done
        assert "Traceback" not in done.err
        assert done.err.strip()
        assert listing(tmp_path) == before
        return done

    return run
