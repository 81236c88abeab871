"""disco serve: an HTTP API and a page in front of one or several models."""

from __future__ import annotations

import logging
import sys
from importlib.util import find_spec
from pathlib import Path

from disco_mt.cli.common import call
from disco_mt.core.errors import UserError
from disco_mt.core.settings import at_least
from disco_mt.serve.limits import Limits
from disco_mt.serve.process import Loading
from disco_mt.translator import DEFAULT_MODEL

_NEEDED = {"fastapi": "fastapi", "uvicorn": "uvicorn", "prometheus_client": "prometheus-client"}


def serve(
    model: tuple[str, ...] = (DEFAULT_MODEL,),
    host: str = "127.0.0.1",
    port: int = 8000,
    api_keys: Path | None = None,
    allow_origin: tuple[str, ...] = (),
    allow_host: tuple[str, ...] = (),
    limits: Limits = Limits(),  # noqa: B008
    engine: str = "",
    precision: str = "",
    device: str = "cpu",
    threads: int = 0,
    quiet: bool = False,
) -> int:
    """Serve models over HTTP: an API at /v1/translate, LibreTranslate's at /translate, a page at /.

    disco serve

    disco serve --model models/en-de models/en-fr --port 8080

    disco serve --host 0.0.0.0 --api-keys keys.txt --allow-host translate.example.org

    Args:
        model: Models, as in `disco translate`; of several for one language pair, the first is that pair's.
        host: Address to listen on; others than 127.0.0.1 let other machines in.
        port: Port to listen on; 0: any free one.
        api_keys: File with one API key a line; translating then needs one. Also: DISCO_API_KEYS, by commas.
        allow_origin: Origins of foreign pages that may ask, such as https://example.org.
        allow_host: Names by which the server may be called; needed behind a proxy if it listens on loopback.
        engine: As in `disco translate`; the default is the fastest that fits the model.
        precision: fp32 or int8, if the engine has it.
        device: cpu, cuda or mps.
        threads: Threads of each model; 0: what is fastest, which the incremental engine finds out once.
        quiet: Log warnings and errors only.
    """
    missing = [name for module, name in _NEEDED.items() if find_spec(module) is None]
    if missing:
        raise UserError(f"disco serve needs {', '.join(missing)}: pip install disco-mt[serve]")
    if not model:
        raise UserError("--model needs at least one model: a directory, a shipped model, or one of the hub")
    if not 0 <= port < 65536:
        raise UserError(f"port must be between 0 and 65535, got {port}")
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s",
        level=logging.WARNING if quiet else logging.INFO,
        stream=sys.stderr,
    )
    at_least("--threads", threads, 0)
    loading = Loading("", device, engine, precision, threads)
    _serve(model, loading, host, port, api_keys, allow_origin, allow_host, limits)
    return 0


def _serve(
    names: tuple[str, ...],
    loading: Loading,
    host: str,
    port: int,
    api_keys: Path | None,
    origins: tuple[str, ...],
    hosts: tuple[str, ...],
    limits: Limits,
) -> None:
    from disco_mt.serve.app import make_app
    from disco_mt.serve.keys import read_keys
    from disco_mt.serve.middleware import access_for
    from disco_mt.serve.models import load_models
    from disco_mt.serve.server import allow_files, bind, make_server
    from disco_mt.serve.service import Service

    keys, access = read_keys(api_keys), access_for(host, origins, hosts)
    allow_files(limits.connections + 100)
    with bind(host, port) as listener:
        models = load_models(names, loading)
        service = Service.of(models, limits, keys, access)
        make_server(make_app(service), limits, service.worker).run([listener])


def main(arguments: list[str]) -> int:
    """The verb."""
    return call(serve, "serve", arguments)
