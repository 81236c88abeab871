"""Disco: translate every word of a sentence at once (DisCo, Kasai et al., ICML 2020).

OpenMP threads that wait for work spin by default, and beside any other load both become ten times slower. So
the first import asks for passive waiting after a short spin, without which an idle machine would be slower
(benchmarks/waiting.py). OpenMP reads this when torch is loaded. Your own OMP_WAIT_POLICY or GOMP_SPINCOUNT
stays as it is; if you import torch before disco_mt, set them yourself.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING

from disco_mt.version import __version__

if TYPE_CHECKING:
    from disco_mt.decoding.options import DecodeRequest as DecodeRequest
    from disco_mt.decoding.options import DecodingOptions as DecodingOptions
    from disco_mt.engine.select import EngineOptions as EngineOptions
    from disco_mt.pins.parse import Pin as Pin
    from disco_mt.translator import Translator as Translator

_PUBLIC = {
    "DecodeRequest": "decoding.options",
    "DecodingOptions": "decoding.options",
    "EngineOptions": "engine.select",
    "Pin": "pins.parse",
    "Translator": "translator",
}
__all__ = ["DecodeRequest", "DecodingOptions", "EngineOptions", "Pin", "Translator", "__version__"]

if "torch" not in sys.modules:
    if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = "2000"
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def __getattr__(name: str) -> object:
    """Import the public names (and torch) only when they are asked for."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'disco_mt' has no attribute {name!r}")
    return getattr(importlib.import_module(f"disco_mt.{_PUBLIC[name]}"), name)
