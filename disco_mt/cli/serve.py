"""disco serve: an HTTP API and a page in front of one or several models."""

from __future__ import annotations

import logging
import sys
from importlib.util import find_spec
from pathlib import Path

from disco_mt.core.errors import UserError
from disco_mt.core.settings import at_least
from disco_mt.engine.select import EngineOptions
from disco_mt.serve.limits import Limits
from disco_mt.translator import DEFAULT_MODEL

_NEEDED = ("fastapi", "uvicorn", "prometheus_client", "py3langid")


def serve(
    model: tuple[str, ...] = (DEFAULT_MODEL,),
    host: str = "127.0.0.1",
    port: int = 8000,
    api_keys: Path | None = None,
    allow_origin: tuple[str, ...] = (),
    allow_host: tuple[str, ...] = (),
    limits: Limits = Limits(),  # noqa: B008
    engine: EngineOptions = EngineOptions(),  # noqa: B008
    quiet: bool = False,
) -> int:
    """Serve models over HTTP: an API at /v1/translate, LibreTranslate's at /translate, a page at /.

    disco serve

    disco serve --model models/en-de models/en-fr --port 8080

    disco serve --host 0.0.0.0 --api-keys keys.txt --allow-host translate.example.org

    Args:
        model: Models, as in `disco translate`; of several for one language pair, the first is the default.
        host: Address to listen on; any other than 127.0.0.1 lets other machines in.
        port: Port to listen on; 0: any free one.
        api_keys: File with one API key per line, one of which each request must then send. Keys may also be
            in the environment variable DISCO_API_KEYS, separated by commas.
        allow_origin: Origins of other web pages that may ask, such as https://example.org.
        allow_host: Host names the server answers to; needed behind a proxy if it listens on loopback.
        quiet: Log warnings and errors only.
    """
    missing = [module.replace("_", "-") for module in _NEEDED if find_spec(module) is None]
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
    at_least("--threads", engine.threads, 0)

    from disco_mt.serve.access import access_for, read_keys
    from disco_mt.serve.app import make_app
    from disco_mt.serve.models import load_models
    from disco_mt.serve.server import allow_files, bind, make_server
    from disco_mt.serve.service import Service

    keys = read_keys(api_keys)
    access = access_for(host, allow_origin, allow_host)
    allow_files(limits.connections + 100)
    with bind(host, port) as listener:
        models = load_models(model, engine)
        service = Service(models, limits, keys, access)
        make_server(make_app(service), limits, service.worker).run([listener])
    return 0
