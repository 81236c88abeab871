"""Disco: translate every word of a sentence at once (DisCo, Kasai et al., ICML 2020).

OpenMP threads that wait for work spin by default, and beside any other load both become ten times slower. So
the first import asks for passive waiting, which OpenMP reads when torch is loaded. Your own OMP_WAIT_POLICY
stays as it is; if you import torch before disco_mt, set it yourself.
"""

import os
import sys
from typing import TYPE_CHECKING

from disco_mt.version import __version__

if TYPE_CHECKING:
    from disco_mt.pins.parse import Pin as Pin
    from disco_mt.translator import Translator as Translator

__all__ = ["Pin", "Translator", "__version__"]

if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def __getattr__(name: str) -> object:
    """Import the translator (and torch) only when it is asked for."""
    if name == "Pin":
        from disco_mt.pins.parse import Pin

        return Pin
    if name == "Translator":
        from disco_mt.translator import Translator

        return Translator
    raise AttributeError(name)
