"""Mistakes in the training options are named."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from disco_mt.core.errors import UserError
from disco_mt.core.settings import from_dict
from disco_mt.training.options import MAY_CHANGE, TrainingOptions


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", 0),
        ("max_steps", 0),
        ("warmup_steps", 0),
        ("keep_best", 0),
        ("save_every", 0),
        ("log_every", 0),
        ("seed", -1),
        ("max_epochs", -1),
        ("patience", -1),
        ("cooldown_steps", -1),
        ("weight_decay", -0.1),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("clip_norm", 0.0),
        ("adam_epsilon", 0.0),
        ("adam_beta1", 1.0),
        ("batch_tokens", 8_191),
    ],
)
def test_values_out_of_range(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"training.{name} must be"):
        from_dict(TrainingOptions, {name: value}, "recipe")


def test_what_may_change_is_what_no_weight_depends_on() -> None:
    names = {field.name for field in fields(TrainingOptions)}
    assert names >= MAY_CHANGE
    assert names - MAY_CHANGE == TrainingOptions().decisive().keys()
    assert {"seed", "batch_tokens", "learning_rate"} <= TrainingOptions().decisive().keys()


def test_with_a_cooldown_the_end_may_not_change() -> None:
    assert TrainingOptions(max_steps=7, cooldown_steps=3).decisive()["max_steps"] == 7
