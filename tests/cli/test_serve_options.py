"""`disco serve` with options that cannot be: refused by name before anything is loaded."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from disco_command import Disco
from small_model import Small

MISTAKES = [
    (["--model"], "--model needs at least one model"),
    (["--model", "nowhere"], "there is no model 'nowhere'"),
    (["--port", "99999"], "port must be between 0 and 65535, got 99999"),
    (["--port", "http"], "Error parsing --port"),
    (["--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid:8000"),
    (["--threads", "-1"], "--threads must be at least 0, got -1"),
    (["--queue", "0"], "queue must be at least 1, got 0"),
    (["--deadline", "0"], "deadline must be at least 1, got 0"),
    (["--allow-origin", "example.org"], "an origin looks like https://example.org, got 'example.org'"),
    (["--api-keys", "nowhere.txt"], "cannot read the API keys in nowhere.txt"),
    (["--queues", "5"], "Unrecognized options: --queues"),
]


@pytest.mark.parametrize(("options", "said"), MISTAKES, ids=lambda value: str(value)[:30])
def test_mistakes_are_named(refused: Disco, options: list[str], said: str) -> None:
    assert said in refused("serve", *options).said


def test_a_port_in_use(refused: Disco, small: Small) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        said = refused("serve", "--model", small.disco, "--port", port).said
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; see --host and --port" in said


def test_names_that_clash(refused: Disco, small: Small) -> None:
    said = refused("serve", "--port", 0, "--model", small.disco, small.disco).said
    assert "two models are called 'disco'; rename the directory of one" in said


def test_keys_that_can_be_guessed(refused: Disco, small: Small, tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text("# mine\nsecret\n")
    said = refused("serve", "--port", 0, "--model", small.disco, "--api-keys", tmp_path / "keys.txt").said
    assert "an API key must have at least 16 characters; make one with: openssl rand -hex 16" in said
    assert "secret" not in said
