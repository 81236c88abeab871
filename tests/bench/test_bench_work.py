"""The arithmetic that is counted is the arithmetic that torch does."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from disco_mt.bench.runners import ForcedLengths, Outcome
from disco_mt.bench.work import gflop
from disco_mt.decoding.options import DecodeRequest, DecodingOptions
from disco_mt.engine.incremental import Work
from disco_mt.engine.skipping import Structure
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.systems import decode
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.build import build_model
from disco_mt.systems.disco.model import DisCo
from tiny import MARIAN, POOLED, PRIOR

SOURCE, WORDS = 9, 7
SIZES = {
    "width": 32,
    "encoder": Stack(3, 4, 48),
    "decoder": Stack(2, 4, 40),
    "source_vocabulary": 60,
    "target_vocabulary": 60,
    "length_classes": 50,
}


def config(kind: str, **options: object) -> ModelConfig:
    return ModelConfig(kind=kind, **SIZES, **options)  # type: ignore[arg-type]


@torch.no_grad()
@pytest.mark.parametrize("options", [{}, {"length": PRIOR}, {"start_token": True}, MARIAN], ids=str)
def test_one_pass_of_disco(options: dict[str, object]) -> None:
    model = build_model(config("disco", **options)).eval().requires_grad_(False)
    assert isinstance(model, DisCo)
    source, target = torch.full((1, SOURCE), 6), torch.full((1, WORDS + 1), 6)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        encoded = model.encode(source)
        hidden = model.decode(target, torch.ones(1, WORDS + 1, WORDS + 1, dtype=torch.bool), encoded)
        model.best_words(hidden[0])
    rows = WORDS + 1  # the plain model computes the row of EOS, too
    keys = rows + model.config.start_token
    outcome = Outcome(WORDS, SOURCE, Work(1, 1, rows, rows, keys))
    assert gflop(model.config, outcome) * 1e9 == pytest.approx(counter.get_total_flops())


@torch.no_grad()
def test_the_source_side_of_an_autoregressive_model() -> None:
    model = build_model(config("autoregressive")).eval().requires_grad_(False)
    assert isinstance(model, Autoregressive)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model.encode(torch.full((1, SOURCE), 6))
    nothing = Outcome(WORDS, SOURCE, Work())
    assert gflop(model.config, nothing) * 1e9 == pytest.approx(counter.get_total_flops())


@pytest.mark.parametrize("options", [{}, {"length": PRIOR}, {"length": POOLED}], ids=str)
def test_forced_lengths_replace_the_predicted_ones(options: dict[str, object]) -> None:
    model = build_model(config("cmlm", **options)).eval()
    lengths = ((4, 9, 5), (3, 2, 8))
    forced = ForcedLengths([Structure.fixed(each, (1.0,)) for each in lengths])
    source = torch.full((2, SOURCE), 6)
    hypotheses = decode(model, source, DecodingOptions(iterations=3), DecodeRequest(pins=forced))
    assert [tuple(map(len, each.candidates)) for each in hypotheses] == [*lengths]
    assert [each.steps for each in hypotheses] == [3, 3]


def test_fewer_rows_are_less_work() -> None:
    whole, part = (Outcome(WORDS, SOURCE, Work(1, 5, rows, 100, rows)) for rows in (100, 60))
    source = gflop(config("disco"), Outcome(WORDS, SOURCE, Work(1, 5, 0, 100, 0)))
    done = (gflop(config("disco"), each) - source for each in (part, whole))
    assert next(done) / next(done) == pytest.approx(0.6)
