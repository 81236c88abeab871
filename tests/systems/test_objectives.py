"""What each objective lets a word see, checked by what changes the loss."""

from __future__ import annotations

import pytest
import torch

from disco_mt import context
from disco_mt.core.batch import Batch
from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import MASK
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.objective import ObjectiveOptions
from disco_mt.systems import SYSTEMS
from disco_mt.systems.build import build_model
from disco_mt.systems.cmlm.objectives import random_masks
from disco_mt.systems.objective import build_objective
from tiny import lively, padded, random_sources, tiny_config

EVERY = [(system.name, name) for system in SYSTEMS.values() for name in system.objectives]


def make(kind: str, name: str) -> tuple[TranslationModel, object]:
    model = lively(build_model(tiny_config(kind=kind)))
    return model, build_objective(kind, ObjectiveOptions(name, left_to_right_share=0.4))


def batch(lengths: list[int], extra: int = 0) -> Batch:
    sources, targets = random_sources(lengths), random_sources(lengths[::-1], seed=1)
    return Batch(torch.arange(len(lengths)) * 7, padded(sources, extra), padded(targets, extra))


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_a_batch_may_be_cut_anywhere(kind: str, name: str) -> None:
    """The sum over a batch is the sum over its sentences, one by one, at any padding."""
    model, objective = make(kind, name)
    whole = batch([3, 7, 1, 5], extra=2)
    together = objective(model, whole, 11)
    alone = []
    for i, (source, target) in enumerate(
        zip(random_sources([3, 7, 1, 5]), random_sources([5, 1, 7, 3], seed=1), strict=True)
    ):
        single = Batch(torch.tensor([i * 7]), padded([source]), padded([target]))
        alone.append(objective(model, single, 11))
    assert sum(each.total.item() for each in alone) == pytest.approx(together.total.item(), rel=1e-10)
    assert sum(each.words for each in alone) == together.words


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_randomness_follows_the_key(kind: str, name: str) -> None:
    model, objective = make(kind, name)
    first, again, other = (objective(model, batch([6, 4]), key).total.item() for key in (1, 1, 2))
    assert first == again
    random = (kind, name) in {
        ("disco", "disco"),
        ("disco", "permutation"),
        ("disco", "mixture"),
        ("cmlm", "cmlm"),
    }
    assert (first != other) == random


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_every_parameter_learns(kind: str, name: str) -> None:
    model, objective = make(kind, name)
    objective(model, batch([6, 4]), 1).total.backward()
    for parameter, value in model.named_parameters():
        assert value.grad is not None, parameter
        assert value.grad.abs().sum() > 0, parameter


def test_mixture_draws_by_sentence() -> None:
    """share 0 is the DisCo objective, share 1 the left-to-right one."""
    model = lively(build_model(tiny_config()))
    data = batch([6, 4, 5])
    for share, name in ((0.0, "disco"), (1.0, "left-to-right")):
        mixed = build_objective("disco", ObjectiveOptions("mixture", left_to_right_share=share))
        pure = build_objective("disco", ObjectiveOptions(name))
        assert mixed(model, data, 5).total.item() == pure(model, data, 5).total.item()


def test_easy_first_training_is_two_passes_by_the_references_order() -> None:
    """Written out: the first pass sees only EOS, the second the words with a more likely reference."""
    model, objective = make("disco", "easy-first")
    data = batch([5])
    words, eos = context.words_and_eos(data.target)
    encoded = model.encode(data.source)
    logs = []
    hidden = model.decode(data.target, context.nothing(words, eos), encoded)
    logs.append((hidden @ model.output.weight.T).log_softmax(-1))
    own = logs[0].gather(2, data.target[..., None])[0, :5, 0].tolist()
    easier = [[own[m] > own[n] for m in range(5)] + [True] for n in range(5)] + [[False] * 5 + [True]]
    hidden = model.decode(data.target, torch.tensor([easier]), encoded)
    logs.append((hidden @ model.output.weight.T).log_softmax(-1))
    nll = -sum(log.gather(2, data.target[..., None])[0, :5].sum() for log in logs)
    found = objective(model, data, 1)
    assert found.parts["nll"].item() == pytest.approx(nll.item(), rel=1e-10)
    assert found.words == 5
    assert found.parts["length"].item() == pytest.approx(-encoded.length_log_probs[0, 6].item())


def test_cmlm_masks_a_uniform_number_from_1_to_n() -> None:
    words = torch.tensor([[True] * 4 + [False]]).expand(4000, -1)
    masked = random_masks(3, torch.arange(4000), words)
    assert not masked[:, 4].any()
    numbers = torch.bincount(masked.sum(1), minlength=5).double()
    assert numbers[0] == 0
    assert ((numbers[1:] - 1000) ** 2 / 1000).sum() < 16.3  # 3 degrees of freedom, p = 0.001
    assert (masked[:, :4].double().mean(0) - 0.625).abs().max() < 0.04


def test_cmlm_loss_is_on_masked_words_only() -> None:
    model, objective = make("cmlm", "cmlm")
    data = batch([8])
    words, eos = context.words_and_eos(data.target)
    masked = random_masks(2, data.sentence, words)
    hidden = model.decode(
        data.target.masked_fill(masked, MASK), context.observed_set(words, eos), model.encode(data.source)
    )
    logs = (hidden @ model.output.weight.T).log_softmax(-1).gather(2, data.target[..., None])[..., 0]
    found = objective(model, data, 2)
    assert found.words == int(masked.sum())
    assert found.parts["nll"].item() == pytest.approx(-logs[masked].sum().item(), rel=1e-10)


def test_autoregressive_sees_only_what_came_before() -> None:
    model, _ = make("autoregressive", "autoregressive")
    data = batch([6])
    changed = data.target.clone()
    changed[0, 3] = 5 + (changed[0, 3] - 4) % 30
    encoded = model.encode(data.source)
    same = (model.decode(data.target, encoded) == model.decode(changed, encoded)).all(2)[0]
    assert same.tolist() == [True] * 4 + [False] * 3


def test_an_objective_that_does_not_fit_is_refused_with_those_that_do() -> None:
    with pytest.raises(UserError, match="'cloze' does not fit a model of kind cmlm; there are: cmlm"):
        build_objective("cmlm", ObjectiveOptions("cloze"))
    with pytest.raises(UserError, match="label_smoothing must be between 0 and 1, got 2"):
        ObjectiveOptions(label_smoothing=2)
