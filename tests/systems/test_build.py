"""Building a model is fast, and does not depend on torch's own initialisation."""

from __future__ import annotations

import subprocess
import sys

import torch

from disco_mt.systems.build import build_model, empty_model
from tiny import tiny_config

LOADED = """
import sys
from disco_mt.systems.build import empty_model
from disco_mt.nn.config import ModelConfig
empty_model(ModelConfig(kind="disco", source_vocabulary=50, target_vocabulary=50))
print([name for name in ("torch._dynamo", "sympy") if name in sys.modules])
"""


def test_building_a_model_does_not_load_the_compiler():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_same_seed_gives_the_same_weights():
    one, two, other = (build_model(tiny_config(kind="disco"), seed) for seed in (3, 3, 4))
    weights = [model.encoder.words.weight for model in (one, two, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_an_empty_model_has_its_fixed_tables():
    config = tiny_config(kind="disco", positions="sinusoidal")
    assert torch.equal(empty_model(config).positions.weight, build_model(config).positions.weight)
