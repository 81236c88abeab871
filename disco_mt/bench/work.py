"""How much arithmetic a translation is: multiplications and additions of the matrix products.

Only what a system must compute for its rows is counted, not padding and not what an engine does besides, so
that the share of the peak shows what is lost. Softmax, LayerNorm and the like are not counted.
"""

from __future__ import annotations

from statistics import fmean

from disco_mt.bench.entries import BASELINE
from disco_mt.bench.measure import Measured, Result
from disco_mt.bench.runners import Outcome
from disco_mt.nn.config import ModelConfig
from disco_mt.nn.length import FURTHEST
from disco_mt.reporting.timing import latency
from disco_mt.systems import system_for


def mean_gflop(result: Result) -> float | None:
    """Per sentence; None for a system whose arithmetic is not known, because a plugin added it."""
    if not system_for(result.entry.kind).bench:
        return None
    return fmean(gflop(result.entry.weights.config, outcome) for outcome in result.outcomes)


def speed(measured: Measured, result: Result, threads: int) -> float | None:
    if mean_gflop(result) is None:
        return None
    plan = measured.plan
    outcomes = dict(zip(plan.scored, result.outcomes, strict=True))
    done = sum(gflop(result.entry.weights.config, outcomes[place]) for place in plan.timed)
    return done / (latency(result.times[threads].seconds).mean / 1000 * len(plan.timed))


def gflop(config: ModelConfig, outcome: Outcome) -> float:
    return 2 * (_encoder(config, outcome.source) + _decoder(config, outcome)) / 1e9


def _encoder(config: ModelConfig, source: int) -> int:
    """Multiply-adds of the encoder, and of the source's keys and values in every decoder layer."""
    d, stack = config.width, config.encoder
    slot = config.kind != BASELINE and config.length.predictor == "slot"
    rows = source + slot
    row = 4 * d * d + 2 * rows * d + 2 * d * stack.hidden
    return rows * stack.layers * row + _length(config) + source * config.decoder.layers * 2 * d * d


def _length(config: ModelConfig) -> int:
    """Multiply-adds of the length predictor, the slot's way through the encoder apart."""
    if config.kind == BASELINE:
        return 0
    d = config.width
    return d * config.length_classes if config.length.predictor == "slot" else d * (d + 2 * FURTHEST + 1)


def _decoder(config: ModelConfig, outcome: Outcome) -> int:
    """Multiply-adds of the decoder: rows through all layers and the vocabulary, and target keys."""
    d, stack = config.width, config.decoder
    seen = outcome.words + 1 + config.start_token
    if config.kind == BASELINE:
        seen = (seen + 1) // 2  # on average
    self_attention = 2 * d * d + 2 * seen * d  # queries, output; scores, mixing
    cross_attention = 2 * d * d + 2 * outcome.source * d
    row = stack.layers * (self_attention + cross_attention + 2 * d * stack.hidden)
    keys = outcome.work.keys * stack.layers * 2 * d * d
    return outcome.work.rows * (row + d * config.target_vocabulary) + keys
