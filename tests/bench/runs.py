"""Runs that never were: results with chosen times, for the tests of what is made of them."""

from __future__ import annotations

from disco_mt.bench.measure import Measured, Plan, Result, Times
from disco_mt.bench.sentences import Outcome, Sentence
from disco_mt.bench.structures import fixed_structures
from disco_mt.bench.system import Precision, System, Weights
from disco_mt.bench.worker import Memory
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.reporting.load import Load

CALM = Load(0.0, 0.01, 0.02, 2)


def system(
    kind: str, precision: Precision = "fp32", beam: int = 5, layers: tuple[int, int] = (6, 6)
) -> System:
    encoder, decoder = (Stack(layers=number) for number in layers)
    names = {"autoregressive": "AT", "disco": "DisCo", "cmlm": "CMLM"}
    config = ModelConfig(kind=kind, encoder=encoder, decoder=decoder)
    weights = Weights(f"{names[kind]} {layers[0]}-{layers[1]}", config)
    return System(weights, "ctranslate2" if kind == "autoregressive" else "plain", precision, beam)


def result(of: System, *, repeats: int = 3, wobble: float = 0.0, **ms: float) -> Result:
    """ms: milliseconds a sentence by threads, t1=..., t2=...; wobble: share that repeats differ by."""
    times = {}
    for name, value in ms.items():
        rows = [[value / 1000 * (1 + wobble * (repeat % 2))] * 2 for repeat in range(repeats)]
        times[int(name[1:])] = Times(rows, rows, {8: [value / 1000], 32: [value / 2000]})
    outcomes = [Outcome(25, 5, 370, 400, 625, 26)] * 2
    return Result(of, times, Memory(100, 300, 250), outcomes)


def measured(*results: Result, threads: tuple[int, ...] = (1, 2)) -> Measured:
    plan = Plan(threads, 3, (0, 1), (0, 1), (8, 32), 1, (0, 1))
    sentences = tuple(Sentence("", (7,) * 25, structure) for structure in fixed_structures([25], 2))
    peak = {each: {"fp32": 100.0 * each, "int8": 400.0 * each} for each in threads}
    return Measured(plan, sentences, results, peak, CALM)
