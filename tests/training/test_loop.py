"""What a run does and leaves behind: it learns, logs, scores, keeps the best, and knows when to stop."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_run
import torch
from tiny_run import OBJECTIVE, OPTIONS, go, last, same

from disco_mt.core.counter_rng import mix
from disco_mt.core.errors import UserError
from disco_mt.data.batches import collate, plan_epoch
from disco_mt.evaluation.dev import DevScore, Scorer
from disco_mt.nn.directory import read_config
from disco_mt.systems.build import build_model, load_weights
from disco_mt.text.pair import TextPair
from disco_mt.training.job import TrainingJob
from disco_mt.training.loop import TOO_MANY_SKIPPED, train
from disco_mt.training.rundir import read_log


def scores(values: list[float]) -> Scorer:
    """A scorer that gives these, in turn."""
    rest: Iterator[float] = iter(values)
    return lambda model: DevScore(next(rest), 1.0, 0.0)


def lines(run: Path, kind: str) -> list[dict[str, Any]]:
    return [entry for entry in read_log(run) if entry["kind"] == kind]


def test_it_learns(tmp_path: Path) -> None:
    """The words repeat, so that a model without a look at the source can learn a little; ours learns more."""
    options = replace(OPTIONS, max_steps=150, log_every=10, save_every=1000)
    go(tmp_path / "run", options, trained=tiny_run.model(dropout=0.0))
    losses = [entry["nll"] for entry in lines(tmp_path / "run", "train")]
    assert losses[0] > 0.95 * math.log(35)
    assert losses[-1] < 0.75 * math.log(35)


def test_adam_as_the_textbook_has_it(tmp_path: Path) -> None:
    """Two updates by hand: division by words, rate of the step, decoupled decay on all parameters."""
    run = tmp_path / "run"
    options = replace(OPTIONS, batch_tokens=10_000, max_tokens=10_000, max_steps=2, weight_decay=0.5)
    go(run, options, trained=tiny_run.model(dropout=0.0).double())
    model = tiny_run.model(dropout=0.0).double()
    split = tiny_run.dataset(tmp_path / "data").splits["train"]
    moments = {name: (0.0 * p.detach(), 0.0 * p.detach()) for name, p in model.named_parameters()}
    for step, rate in ((1, 0.0025), (2, 0.005)):  # the warm-up to 0.01 takes four
        (indices,) = plan_epoch(split.source_lengths, split.target_lengths, 10_000, seed=1, epoch=step)
        losses = OBJECTIVE(model, collate(split, indices), mix(1, step))
        torch.autograd.backward(losses.total / losses.words)
        for name, p in model.named_parameters():
            assert p.grad is not None
            one, two = moments[name]
            one, two = 0.9 * one + 0.1 * p.grad, 0.999 * two + 0.001 * p.grad**2
            moments[name] = one, two
            update = one / (1 - 0.9**step) / ((two / (1 - 0.999**step)).sqrt() + 1e-6)
            p.data = p.data * (1 - rate * 0.5) - rate * update
            p.grad = None
    weights = last(run)
    for name, p in model.named_parameters():
        if name in weights:
            torch.testing.assert_close(weights[name], p.data, rtol=1e-9, atol=1e-9)


def test_the_log(tmp_path: Path) -> None:
    run = tmp_path / "run"
    go(run)
    assert [entry["step"] for entry in lines(run, "train")] == [3, 6, 9]
    assert [entry["epoch"] for entry in lines(run, "train")] == [1, 2, 3]
    assert [(entry["step"], entry["epoch"]) for entry in lines(run, "dev")] == [(4, 1), (8, 2), (11, 3)]
    assert lines(run, "train")[0].keys() >= {
        "loss", "nll", "length", "lr", "grad_norm", "tokens_per_second", "seconds", "skipped"
    }  # fmt: skip
    assert [entry["reason"] for entry in lines(run, "end")] == ["steps"]
    assert lines(run, "start")[0]["accumulation"] == 3
    content = json.loads((run / "run.json").read_text())
    assert content["recipe"] == tiny_run.RECIPE
    assert content["versions"].keys() == {"disco_mt", "torch", "numpy", "python"}


def test_the_best_are_kept_as_model_directories(tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = replace(OPTIONS, dev_every=2, max_steps=10, keep_best=2)
    result = go(run, options, scorer=scores([3.0, 1.0, 2.0, 3.0, 0.0]))
    assert [(scored.step, scored.score.bleu) for scored in result.best] == [(2, 3.0), (8, 3.0)]
    assert sorted(path.name for path in (run / "best").iterdir()) == ["step-00000002", "step-00000008"]
    directory = read_config(run / "best" / "step-00000008")
    assert directory.extra["dev"] == {"bleu": 3.0, "steps": 1.0, "seconds": 0.0}
    assert directory.extra["step"] == 8
    assert TextPair.load(directory.path, directory.text).joint
    assert "3.00 BLEU" in (directory.path / "README.md").read_text()
    assert load_weights(directory).config == tiny_run.model().config


def test_patience(tmp_path: Path) -> None:
    options = replace(OPTIONS, dev_every=1, patience=2)
    result = go(tmp_path / "run", options, scorer=scores([1.0, 3.0, 3.0, 2.0]))
    assert (result.reason, result.step) == ("patience", 4)


def test_epochs(tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = go(run, replace(OPTIONS, max_epochs=2, max_steps=1000))
    assert (result.reason, result.step) == ("epochs", 8)
    assert go(run, replace(OPTIONS, max_epochs=2, max_steps=1000), resume=True).step == 8
    assert go(run, replace(OPTIONS, max_epochs=3, max_steps=1000), resume=True).step == 12


def test_scoring_is_in_eval_mode_and_training_is_not(tmp_path: Path) -> None:
    seen: list[tuple[bool, bool]] = []

    def scorer(model: Any) -> DevScore:
        seen.append((model.training, torch.is_grad_enabled()))
        return DevScore(1.0, 1.0, 0.0)

    def objective(model: Any, batch: Any, key: int) -> Any:
        assert model.training
        return OBJECTIVE(model, batch, key)

    go(tmp_path / "run", objective=objective, scorer=scorer)
    assert seen == [(False, False)] * 3


def exploding(steps: set[int]) -> Any:
    """Infinite losses in these batches (one per update)."""
    count = iter(range(1, 10_000))

    def objective(model: Any, batch: Any, key: int) -> Any:
        losses = OBJECTIVE(model, batch, key)
        return replace(losses, total=losses.total * torch.inf) if next(count) in steps else losses

    return objective


def test_an_update_that_is_not_finite_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = replace(OPTIONS, batch_tokens=64, max_steps=6, save_every=1, log_every=1)
    run = tmp_path / "run"
    go(run, options, objective=exploding({3, 5}))
    assert [entry["skipped"] for entry in lines(run, "train")] == [0, 0, 1, 1, 2, 2]
    assert "loss" not in lines(run, "train")[2]
    assert all(bool(tensor.isfinite().all()) for tensor in last(run).values())
    assert "step 3: gradient norm" in capsys.readouterr().err


def test_too_many_in_a_row(tmp_path: Path) -> None:
    options = replace(OPTIONS, batch_tokens=64, max_steps=100)
    with pytest.raises(UserError, match=f"{TOO_MANY_SKIPPED} updates in a row, up to step 25"):
        go(tmp_path / "run", options, objective=exploding(set(range(6, 100))))


def test_sentences_longer_than_the_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model.max_source must be at least 12.*got 9"):
        go(tmp_path / "run", trained=tiny_run.model(positions=9))
    assert not (tmp_path / "run").exists()


def test_lengths_without_a_class_are_refused(tmp_path: Path) -> None:
    """They would all be taken for the longest."""
    config = replace(tiny_run.model().config, kind="disco", length_classes=12)
    with pytest.raises(UserError, match=r"model.length_classes must be at least 13.* 12 tokens .*got 12"):
        go(tmp_path / "run", trained=build_model(config))
    assert not (tmp_path / "run").exists()


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    data = tiny_run.dataset(tmp_path / "data", pairs=0)
    with pytest.raises(UserError, match="no training pairs"):
        train(tmp_path / "run", TrainingJob(tiny_run.model(), data, OBJECTIVE, tiny_run.score, OPTIONS, {}))


def test_two_runs_are_the_same(tmp_path: Path) -> None:
    go(tmp_path / "one")
    go(tmp_path / "two")
    assert same(last(tmp_path / "one"), last(tmp_path / "two"))
