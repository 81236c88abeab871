"""Plugins: Python files that add a system, an objective or a decoder.

`disco --plugin FILE VERB ...` loads a file. Every process imports it once; workers and distributed ranks get
its path from the environment. A model directory can never cause an import.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from disco_mt.core.errors import UserError

ENVIRONMENT = "DISCO_PLUGINS"


def add_plugin(path: Path) -> None:
    """Register a plugin, which this process and its children import when they first need systems."""
    if not path.is_file():
        raise UserError(f"--plugin {path}: there is no such file; name a Python file")
    known = _paths()
    if str(path.resolve()) not in known:
        os.environ[ENVIRONMENT] = os.pathsep.join([*known, str(path.resolve())])


def load_plugins() -> None:
    """Import the plugins that are not imported yet."""
    for path in map(Path, _paths()):
        name = f"disco_plugin_{path.stem}"
        if name in sys.modules:
            continue
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise UserError(f"the plugin {path} cannot be imported: it is no Python file")
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"the plugin {path} cannot be imported: {type(error).__name__}: {error}"
            ) from error


def _paths() -> list[str]:
    return [path for path in os.environ.get(ENVIRONMENT, "").split(os.pathsep) if path]
