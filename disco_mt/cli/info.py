"""disco info: what is installed and found here."""

from __future__ import annotations

import json
import platform
from typing import Any

from disco_mt.cli.common import Json
from disco_mt.core.machine import package_version
from disco_mt.nn.find import shipped_models
from disco_mt.suites.suite import shipped_suites
from disco_mt.training.recipe import shipped_recipes
from disco_mt.version import __version__

_PACKAGES = ("torch", "numpy", "tokenizers", "sacremoses", "sacrebleu", "safetensors", "sentencex")
_EXTRAS = ("ctranslate2", "jieba")


def info(json_: Json = False) -> int:
    """Versions, threads, devices, and the models, recipes and suites (`disco suite`) that ship."""
    found = gather()
    if json_:
        print(json.dumps(found))
    else:
        width = max(map(len, found))
        for name, value in found.items():
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            print(f"{name:<{width}}  {shown or 'none'}")
    return 0


def gather() -> dict[str, Any]:
    """Name -> value, in the order of printing."""
    import torch

    devices = ["cpu"]
    devices += [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    return {
        "disco": __version__,
        "python": platform.python_version(),
        **{name: package_version(name) for name in (*_PACKAGES, *_EXTRAS)},
        "threads": torch.get_num_threads(),
        "devices": devices,
        "models": shipped_models(),
        "recipes": shipped_recipes(),
        "suites": shipped_suites(),
    }
