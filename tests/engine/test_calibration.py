"""The number of threads is calibrated with a sentence that the model can translate."""

from __future__ import annotations

import pytest

from disco_mt.engine import calibration
from disco_mt.engine.select import make_runtime
from disco_mt.nn.config import ModelConfig, Stack
from disco_mt.systems.build import build_model
from disco_mt.systems.disco.model import DisCo


@pytest.mark.parametrize(("longest_source", "longest_target"), [(5, 40), (40, 5), (40, 40)])
def test_models_of_short_sentences_are_measured_too(longest_source: int, longest_target: int) -> None:
    stack = Stack(layers=1, heads=2, hidden=16)
    model = build_model(
        ModelConfig(
            width=8,
            encoder=stack,
            decoder=stack,
            max_source=longest_source,
            max_target=longest_target,
            length_classes=longest_target + 1,
            source_vocabulary=12,
            target_vocabulary=12,
        )
    ).eval()
    assert isinstance(model, DisCo)
    assert calibration._fastest(model, "fp32", make_runtime, most=1) == 1
