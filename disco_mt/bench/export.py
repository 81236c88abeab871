"""Autoregressive weights for CTranslate2, written once a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from disco_mt.bench.system import System, Weights
from disco_mt.core.special_tokens import NUM_SPECIAL, SPECIAL_TOKENS
from disco_mt.engine.ctranslate2 import export_ctranslate2
from disco_mt.engine.shortlist import Shortlist
from disco_mt.nn.directory import read_config
from disco_mt.systems.build import build_model, load_weights
from disco_mt.text.pair import TextPair


def exported(systems: Sequence[System], folder: Path) -> list[System]:
    """The systems, with a directory for each that runs in CTranslate2."""
    done: dict[str, Path] = {}
    found = []
    for system in systems:
        if system.runtime == "ctranslate2":
            name = system.weights.name
            if name not in done:
                done[name] = folder / f"model-{len(done)}"
                _export(system.weights, done[name])
            if system.shortlist:
                _add_shortlist(Path(system.shortlist), system.weights, done[name])
            system = replace(system, weights=replace(system.weights, exported=str(done[name])))  # noqa: PLW2901
        found.append(system)
    return found


def _add_shortlist(path: Path, weights: Weights, out: Path) -> None:
    """The lists beside a model that was exported."""
    directory = read_config(Path(weights.path))
    text = TextPair.load(directory.path, directory.text)
    sides = [side.tokens(range(side.vocabulary_size)) for side in (text.source, text.target)]
    Shortlist.load(path).save_vmap(out / "vmap.txt", sides[0], sides[1])


def _export(weights: Weights, out: Path) -> None:
    if weights.path:
        directory = read_config(Path(weights.path))
        text = TextPair.load(directory.path, directory.text)
        sides = [side.tokens(range(side.vocabulary_size)) for side in (text.source, text.target)]
        export_ctranslate2(load_weights(directory), sides[0], sides[1], out)
        return
    config = weights.config
    names = [
        [*SPECIAL_TOKENS, *map(str, range(NUM_SPECIAL, size))]
        for size in (config.source_vocabulary, config.target_vocabulary)
    ]
    export_ctranslate2(build_model(config), names[0], names[1], out)
