"""Disco: translate every word of a sentence at once (DisCo, Kasai et al., ICML 2020)."""

from typing import TYPE_CHECKING

from disco_mt.version import __version__

if TYPE_CHECKING:
    from disco_mt.text.pins import Pin as Pin
    from disco_mt.translator import Translator as Translator

__all__ = ["Pin", "Translator", "__version__"]


def __getattr__(name: str) -> object:
    """Import the translator (and torch) only when it is asked for."""
    if name == "Pin":
        from disco_mt.text.pins import Pin

        return Pin
    if name == "Translator":
        from disco_mt.translator import Translator

        return Translator
    raise AttributeError(name)
