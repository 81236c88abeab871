"""Runs that never were: results with chosen times, for the tests of what is made of them."""

from __future__ import annotations

from disco_mt.bench.entries import Entry, Weights, model_name
from disco_mt.bench.measure import Measured, Plan, Result, Times
from disco_mt.bench.process import Memory
from disco_mt.bench.runners import Outcome
from disco_mt.bench.sentences import Sentence, fixed_structures
from disco_mt.decoding.options import DecodingOptions
from disco_mt.engine.incremental import Work
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.reporting.load import Load
from disco_mt.systems import strategy_for

CALM = Load(0.0, 0.01, 0.02, 2)


def entry(kind: str, precision: str = "fp32", strategy: str = "", layers: tuple[int, int] = (6, 6)) -> Entry:
    config = ModelConfig(kind=kind, encoder=Stack(layers=layers[0]), decoder=Stack(layers=layers[1]))
    engine = "ctranslate2" if kind == "autoregressive" else "reference"
    options = DecodingOptions(strategy_for(kind, strategy))
    return Entry(Weights(model_name(config), config), engine, precision, options)


def result(of: Entry, *, repeats: int = 3, wobble: float = 0.0, **ms: float) -> Result:
    """ms: milliseconds per sentence by threads, t1=..., t2=...; wobble: share that repeats differ by."""
    times = {}
    for name, value in ms.items():
        rows = [[value / 1000 * (1 + wobble * (repeat % 2))] * 2 for repeat in range(repeats)]
        times[int(name[1:])] = Times(rows, rows, {8: [value / 1000], 32: [value / 2000]})
    outcomes = [Outcome(25, 26, Work(1, 5, 370, 625, 400))] * 2
    return Result(of, times, Memory(100, 300, 250), outcomes)


def measured(*results: Result, threads: tuple[int, ...] = (1, 2)) -> Measured:
    plan = Plan(threads, 3, (0, 1), (0, 1), (8, 32), 1, (0, 1))
    sentences = tuple(Sentence("", (7,) * 25, structure) for structure in fixed_structures([25], 2))
    peak = {number: {"fp32": 100.0 * number, "int8": 400.0 * number} for number in threads}
    return Measured(plan, sentences, results, peak, CALM)
