"""Disco: translate every word of a sentence at once (DisCo, Kasai et al., ICML 2020).

OpenMP threads that wait for work spin by default, and beside any other load both become ten times slower. So
the first import asks for passive waiting, which OpenMP reads when torch is loaded. Your own OMP_WAIT_POLICY
stays as it is; if you import torch before disco_mt, set it yourself.
"""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from disco_mt.version import __version__

if TYPE_CHECKING:
    from disco_mt.decoding.options import DecodeRequest as DecodeRequest
    from disco_mt.decoding.options import DecodingOptions as DecodingOptions
    from disco_mt.engine.select import EngineOptions as EngineOptions
    from disco_mt.pins.parse import Pin as Pin
    from disco_mt.translator import Translator as Translator

__all__ = ["DecodeRequest", "DecodingOptions", "EngineOptions", "Pin", "Translator", "__version__"]

_MODULES = {
    "DecodeRequest": "disco_mt.decoding.options",
    "DecodingOptions": "disco_mt.decoding.options",
    "EngineOptions": "disco_mt.engine.select",
    "Pin": "disco_mt.pins.parse",
    "Translator": "disco_mt.translator",
}

if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def __getattr__(name: str) -> object:
    """Import the translator (and torch) only when it is asked for."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(name)
