"""Small random DisCo models in float32, and what a runtime makes of sentences."""

from __future__ import annotations

from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.decoding.results import Hypothesis
from disco_mt.engine.incremental import IncrementalEngine
from disco_mt.engine.runtime import Runtime
from disco_mt.systems.build import build_model
from disco_mt.systems.disco.model import DisCo
from tiny import lively, tiny_config


def model_of(seed: int, changes: dict[str, object]) -> DisCo:
    model = lively(build_model(tiny_config(**changes), seed), seed).float()
    assert isinstance(model, DisCo)
    return model


def decoded(runtime: Runtime, sources: list[list[int]], batch_tokens: int) -> list[Hypothesis[int]]:
    options = DecodingOptions(iterations=6, length_beam=3)
    found = dict(
        IncrementalEngine(runtime).decode(sources, options, DecodeRequest(batch_tokens=batch_tokens))
    )
    return [found[index] for index in range(len(sources))]
