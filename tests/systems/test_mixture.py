"""Mixtures of contexts, and a teacher's distribution in left-to-right sentences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from disco_mt import context
from disco_mt.cli import main
from disco_mt.core.batch import Batch
from disco_mt.core.counter_rng import mix, sentence_keys, uniform
from disco_mt.core.errors import UserError
from disco_mt.core.special_tokens import NUM_SPECIAL
from disco_mt.nn.base import TranslationModel
from disco_mt.nn.losses import Losses, Objective
from disco_mt.nn.objective import ObjectiveOptions
from disco_mt.systems.autoregressive.model import Autoregressive
from disco_mt.systems.disco.model import DisCo
from disco_mt.systems.objective import build_objective
from disco_mt.training.recipe import Recipe
from small_model import Small, make_small
from tiny import POOLED, padded, random_sources, tiny_config

LENGTHS = [6, 4, 5, 1, 7, 3]


def batch(lengths: list[int] = LENGTHS) -> Batch:
    sources, targets = random_sources(lengths), random_sources(lengths, seed=1)
    return Batch(torch.arange(len(lengths)) * 7, padded(sources), padded(targets))


def mixed(teacher: Autoregressive | None = None, **options: float) -> Objective:
    chosen = ObjectiveOptions("mixture", teacher="a name" if teacher else "", **options)  # type: ignore[arg-type]
    return build_objective("disco", chosen, teacher)


@pytest.fixture
def model(make_model: Callable[..., TranslationModel]) -> DisCo:
    made = make_model(output_bias=True, length=POOLED)
    assert isinstance(made, DisCo)
    return made


@pytest.fixture
def teacher(make_model: Callable[..., TranslationModel]) -> Autoregressive:
    made = make_model(seed=5, kind="autoregressive", output_bias=True)
    assert isinstance(made, Autoregressive)
    return made


# Shares


def visibility(model: DisCo, objective: Objective, data: Batch, key: int) -> torch.Tensor:
    """The visibility that an objective uses."""
    shown: list[torch.Tensor] = []
    with pytest.MonkeyPatch.context() as patch:
        decode = model.decode
        patch.setattr(model, "decode", lambda *given: (shown.append(given[1]), decode(*given))[1])
        objective(model, data, key)
    return shown[0]


def test_without_new_options_it_is_what_it_was(model: DisCo) -> None:
    """Written out: which sentences are left to right, and what the others see. Trained runs depend on it."""
    data, key = batch(), 11
    words, eos = context.words_and_eos(data.target)
    ordered = uniform(sentence_keys(mix(key, 1), data.sentence), 1)[:, 0] < 0.4
    assert 0 < ordered.sum() < len(LENGTHS)
    expected = context.random(sentence_keys(key, data.sentence), words, eos)
    expected[ordered] = context.left_to_right(words, eos)[ordered]
    for objective in (mixed(left_to_right_share=0.4), mixed(left_to_right_share=0.4, prefix_share=0.0)):
        assert torch.equal(visibility(model, objective, data, key), expected)
    pure = build_objective("disco", ObjectiveOptions("disco"))
    assert mixed(left_to_right_share=0)(model, data, key).total == pure(model, data, key).total


def test_shares_are_respected(model: DisCo) -> None:
    """Of 300 sentences of 4 words: a quarter left to right, half after a prefix, the rest random."""
    data, key = batch([4] * 300), 3
    words, eos = context.words_and_eos(data.target)
    kinds = {
        "left to right": context.left_to_right(words, eos),
        "prefix": context.prefix(sentence_keys(mix(key, 2), data.sentence), words, eos),
        "random": context.random(sentence_keys(key, data.sentence), words, eos),
    }
    shown = visibility(model, mixed(left_to_right_share=0.25, prefix_share=0.5), data, key)[:, :4]
    same = {name: (shown == each[:, :4]).flatten(1).all(dim=1) for name, each in kinds.items()}
    assert torch.stack(list(same.values())).any(dim=0).all()
    assert float(same["left to right"].double().mean()) == pytest.approx(0.25, abs=0.06)
    assert float(same["prefix"].double().mean()) == pytest.approx(0.5, abs=0.08)
    # A larger share of prefixes takes from the random ones only.
    more = visibility(model, mixed(left_to_right_share=0.25, prefix_share=0.75), data, key)[:, :4]
    still = same["left to right"] | same["prefix"]
    assert torch.equal(more[still], shown[still])
    assert (more == kinds["prefix"][:, :4]).flatten(1).all(dim=1)[~same["left to right"]].all()


# The teacher


def log_probs(model: TranslationModel, hidden: torch.Tensor) -> torch.Tensor:
    return model.logits(hidden).log_softmax(-1)


def by_hand(model: DisCo, teacher: Autoregressive, data: Batch, weight: float, smoothing: float) -> float:
    """All sentences left to right: the loss of words, with the teacher's word by word."""
    words, eos = context.words_and_eos(data.target)
    hidden = model.decode(data.target, context.left_to_right(words, eos), model.encode(data.source))
    ours = log_probs(model, hidden)
    its = teacher.logits(teacher.decode(data.target, teacher.encode(data.source)))
    its[..., :NUM_SPECIAL] = -torch.inf
    total = 0.0
    for place in words.nonzero():
        row, n = place.tolist()
        log = ours[row, n]
        hard = (1 - smoothing) * -log[data.target[row, n]] + smoothing * -log.mean()
        soft = -(its[row, n].softmax(0) * log).sum()
        total += float((1 - weight) * hard + weight * soft)
    return total


@torch.no_grad()
def test_left_to_right_sentences_learn_from_the_teacher(model: DisCo, teacher: Autoregressive) -> None:
    data = batch([5, 2, 3])
    found = mixed(teacher, left_to_right_share=1, teacher_weight=0.7, label_smoothing=0.1)(model, data, 1)
    expected = by_hand(model, teacher, data, 0.7, 0.1)
    assert float(found.total - found.parts["length"]) == pytest.approx(expected, rel=1e-9)
    assert found.words == 10


def test_others_learn_from_the_words_alone(model: DisCo, teacher: Autoregressive) -> None:
    """Sums of both parts: with no weight, or without left-to-right sentences, the teacher does not matter."""
    data = batch()
    for options in ({"left_to_right_share": 0.4}, {"left_to_right_share": 0.4, "prefix_share": 0.3}):
        without = mixed(**options)(model, data, 11)
        assert_same(mixed(teacher, **options, teacher_weight=0.0)(model, data, 11), without)
        taught = mixed(teacher, **options, teacher_weight=0.5)(model, data, 11)
        assert taught.parts["nll"].item() == pytest.approx(without.parts["nll"].item(), rel=1e-12)
        assert taught.words == without.words == sum(LENGTHS)
        assert abs(taught.total.item() - without.total.item()) > 1e-3
    nobody = {"left_to_right_share": 0.0, "prefix_share": 0.5}
    assert_same(
        mixed(teacher, **nobody, teacher_weight=0.5)(model, data, 11), mixed(**nobody)(model, data, 11)
    )


def assert_same(one: Losses, other: Losses) -> None:
    assert one.total.item() == pytest.approx(other.total.item(), rel=1e-12)
    assert one.words == other.words


def test_a_batch_may_be_cut_anywhere(model: DisCo, teacher: Autoregressive) -> None:
    """A sentence learns the same with a teacher whatever its batch mates are."""
    objective = mixed(teacher, left_to_right_share=0.5, prefix_share=0.2, teacher_weight=0.5)
    data = batch()
    together = objective(model, data, 11)
    alone = 0.0
    for row, length in enumerate(LENGTHS):
        one = slice(row, row + 1)
        single = Batch(data.sentence[one], data.source[one], data.target[one, : length + 1])
        alone += objective(model, single, 11).total.item()
    assert alone == pytest.approx(together.total.item(), rel=1e-10)


def test_kept_states_are_read_by_both(model: DisCo, make_model: Callable[..., TranslationModel]) -> None:
    """With the student's encoder the teacher says the same whether states are kept or not."""
    teacher = make_model(seed=5, kind="autoregressive")
    assert isinstance(teacher, Autoregressive)
    teacher.encoder = model.encoder
    data = batch()
    objective = mixed(teacher, left_to_right_share=0.5, teacher_weight=0.5)
    kept = Batch(data.sentence, data.source, data.target, model.encoder(data.source)[0])
    assert objective(model, kept, 3).total.item() == pytest.approx(objective(model, data, 3).total.item())


def test_the_teacher_learns_nothing(model: DisCo, teacher: Autoregressive) -> None:
    mixed(teacher, left_to_right_share=1, teacher_weight=1.0)(model, batch(), 1).total.backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())
    assert model.output_bias is not None
    assert model.output_bias.grad is not None
    assert model.output_bias.grad.abs().sum() > 0


# Refusals


def test_refusals() -> None:
    with pytest.raises(UserError, match=r"must add up to at most 1, got 0\.6 and 0\.5"):
        ObjectiveOptions("mixture", left_to_right_share=0.6, prefix_share=0.5)
    for name in ("prefix_share", "teacher_weight"):
        with pytest.raises(UserError, match=rf"objective\.{name} must be between 0 and 1, got 1\.5"):
            ObjectiveOptions("mixture", teacher="x", **{name: 1.5})  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"teacher_weight needs objective\.teacher"):
        ObjectiveOptions("mixture", teacher_weight=0.5)
    with pytest.raises(UserError, match=r"objective\.teacher is for the objective mixture, not disco"):
        build_objective("disco", ObjectiveOptions(teacher="x"))
    with pytest.raises(UserError, match=r"objective\.teacher is for the objective mixture, not cmlm"):
        build_objective("cmlm", ObjectiveOptions(teacher="x"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    return make_small(tmp_path_factory.mktemp("small"))


def train(small: Small, folder: Path, *options: str) -> int:
    config = tiny_config(length=POOLED, tying="all")
    recipe = folder / "recipe.toml"
    recipe.write_text(Recipe(model=config).as_toml(), encoding="utf-8")
    where = ["--data", str(small.dataset), "--out", str(folder / "run"), "--quiet"]
    steps = "--training.max-steps 2 --training.batch-tokens 256 --training.max-tokens 256"
    learning = ["--objective.name", "mixture", "--objective.teacher-weight", "0.5"]
    return main(["train", str(recipe), *where, *steps.split(), *learning, *options])


def test_the_command(small: Small, tmp_path: Path) -> None:
    lengths = ["--model.max-source", "48", "--model.max-target", "48"]
    assert train(small, tmp_path, "--objective.teacher", str(small.autoregressive), *lengths) == 0


@pytest.mark.parametrize("kind", ["disco", "cmlm"])
def test_a_teacher_of_another_kind_is_refused(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    assert train(small, tmp_path, "--objective.teacher", str(getattr(small, kind))) == 2
    assert f"must be an autoregressive model, but {getattr(small, kind)} is {kind}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_kept_states_of_another_encoder_are_refused(
    small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The teacher would read the states of the student's encoder as if they were its own."""
    options = ["--training.freeze", "encoder", "--training.encoder-states", str(tmp_path / "states")]
    assert train(small, tmp_path, "--objective.teacher", str(small.autoregressive), *options) == 2
    assert "has another encoder; start from the teacher" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
